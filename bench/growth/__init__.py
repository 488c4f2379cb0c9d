"""The growth of the ledger's costs with its history: `python -m bench.growth`."""
