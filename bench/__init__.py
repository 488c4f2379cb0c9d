"""Benchmarks of the ledger on this machine, against what its server could do for the simplest possible client."""

import os

# Without cached bytecode each process that is measured would compile every module again, and that would be its figure.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
