"""The one glob engine: tokens of a pattern, matching in linear time, and overlap of two patterns.

Each dialect parses its own patterns into the same tokens, see `tokens`. `wildcard` matches texts, `paths` matches paths
name by name, `overlap` compares patterns. All of them keep the positions reached in a pattern, see `automaton`.
"""
