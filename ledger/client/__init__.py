"""The public client: `Ledger`, `Session` and the life of a call."""
