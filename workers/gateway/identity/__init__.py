"""People who prove who they are elsewhere: at an OpenID Connect provider, or at a proxy in front of the gateway."""
