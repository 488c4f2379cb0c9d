"""Benchmarks of the ledger on this machine, against what its server could do for the simplest possible client."""
