"""How the ledger's costs grow with its history: `python -m bench.growth`."""
