"""Adapters between an agent's own protocol and the gateway, on the standard library alone. They decide nothing.

A bridge starts with every agent, a hook with every call; so neither imports the ledger, but for late imports, and
`ledger.core.call_digests`, which imports the standard library alone.
"""
