"""Adapters between an agent's own protocol and the gateway, on the standard library alone. They decide nothing.

A bridge starts with every agent, a hook with every call; so neither imports the ledger, but for late imports, and
the leaves `regular_files`, `file_locks`, `operand_files` and `call_digests` of `ledger.core`, which import the standard
library alone.
"""
