"""Adapters between an agent's own protocol and the gateway, on the standard library alone. They decide nothing.

A bridge starts with every agent, a hook with every call; so neither imports the ledger.
"""
