"""The indexer: keeps a file in which requests are searched, and the search."""
