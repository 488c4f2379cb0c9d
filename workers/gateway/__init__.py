"""The gateway: the ledger over HTTP. It holds no truth; any number may run on one ledger."""
