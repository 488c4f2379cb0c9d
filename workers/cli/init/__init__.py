"""`init`: sets up the ledger in a project."""
