"""How fast the ledger is on this machine, against what its server could do for the simplest possible client."""
