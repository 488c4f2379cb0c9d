"""Facts of a request as words of the index, so that conditions are looked up as words are.

A fact's word is a digest of its kind and value: names have characters that would split them into several words.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Final, Literal

FactKind = Literal["by", "project", "agent", "permission", "session", "grant", "outcome", "token", "request"]

DIGITS: Final = 16
"""Hex digits of a digest: 64 bits, so that two facts of an index never meet."""


def fact_word(kind: FactKind, value: str) -> str:
    """Return the word of a fact; upper and lower case are the same."""
    return "f" + sha256(f"{kind}\n{value.casefold()}".encode(errors="surrogatepass")).hexdigest()[:DIGITS]


def has_letters(text: str) -> bool:
    """Return whether the index has a word for a text: others have nothing to look up."""
    return any(one.isalnum() for one in text)
