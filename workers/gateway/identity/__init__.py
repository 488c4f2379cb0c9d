"""Sign-in of people who are authenticated elsewhere: by an OpenID Connect provider, or a proxy before the gateway."""
