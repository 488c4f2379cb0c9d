"""Server-sent events: what happens in the ledger, told to whoever may see it, resumable from the log itself."""
