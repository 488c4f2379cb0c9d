"""Answer links: a signed address that answers one request, for one person, until it expires."""
