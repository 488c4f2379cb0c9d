"""The gateway's address and HTTP client for programs that start fast: the standard library alone."""
