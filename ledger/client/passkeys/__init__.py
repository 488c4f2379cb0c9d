"""Passkeys over a ledger: registering them and auditing the answers they signed."""
