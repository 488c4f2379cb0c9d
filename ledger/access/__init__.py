"""The access stream: tokens, people and passkeys. Pure, but for the libraries that check signatures."""
