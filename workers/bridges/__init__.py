"""Between an agent's own protocol and the gateway. Thin: nothing is decided here, and only the standard library is used.

A bridge starts with every agent, a hook with every call; so neither imports the ledger.
"""
