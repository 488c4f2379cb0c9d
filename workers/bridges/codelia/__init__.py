"""Codelia: between its user interface and its runtime, which speak JSON-RPC over stdio."""
