"""Passkeys of people, and the answers that they sign (WebAuthn). See `docs/guides/passkeys.md`."""
