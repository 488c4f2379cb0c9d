"""Server-sent events: the ledger's events, filtered by the caller's reach, resumable from the log."""
