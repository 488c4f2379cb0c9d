"""The vocabulary of the ledger: events, ids, limits, errors, encoding. Pure."""
