"""Masks of secrets: known shapes are found in texts before anything is written, and replaced in what is stored.

    shapes/        the shapes as checked data: token prefixes of providers, and places where a secret stands
    shape_tables   the tables read, each pattern compiled when it is needed first
    named_values   names of secrets, and values under such names that are none
    finder         the secrets of one text, found without the characters that hide them
    masking        the texts of a value with masks in place of secrets, with keyed fingerprints
    own_input      masks, and an edited input with the asker's own bytes in their place

Pure: the key is a value. See `docs/contributing/decisions/content.md`.
"""
