"""Overlap of shell globs with patterns of rules. Pure; for deny and ask rules only.

The shell's `*`, `?` and `[…]` match within one name, and a `*` that begins a name skips files that begin with a dot;
so does `**`, which matches any number of folders.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from ledger.policy.toolrules.globs import GlobToken, name_tokens, takes

UNKNOWN: Final = "\ufffe"
"""Any text at all in a word, slashes and dots included. It is a Unicode noncharacter."""

_FOLDERS: Final = "**"
_DOT: Final = "\\."
_SLASH: Final = "\\/"
_STARS: Final = ("*", _FOLDERS, UNKNOWN)
_GLOB = re.compile(rf"[*?\[{UNKNOWN}]")
_WORD_PIECE = re.compile(rf"(?:(?<=/)|\A)\*\*+(?=/|\Z)|{UNKNOWN}+")
_WORDS_MAX: Final = 4_096
_TOKENS_MAX: Final = 4_096
"""Tokens, at most, of a text that is compared; a longer one counts as overlapping every pattern."""


def is_glob(text: str) -> bool:
    """Return whether a text holds a character that the shell may expand to names of files."""
    return _GLOB.search(text) is not None


@lru_cache(maxsize=_WORDS_MAX)
def word_tokens(text: str) -> tuple[GlobToken, ...]:
    """Return the tokens of a shell glob."""
    tokens: list[GlobToken] = []
    end = 0
    for piece in _WORD_PIECE.finditer(text):
        tokens += name_tokens(text[end : piece.start()])
        tokens.append(UNKNOWN if piece.group().startswith(UNKNOWN) else _FOLDERS)
        end = piece.end()
    return (*tokens, *name_tokens(text[end:]))


def wildcard_meets(pattern: str, glob: str) -> bool:
    """Return whether some text matches a wildcard (`*` any text, `?` any character) and a shell glob."""
    return meets(_wildcard_tokens(pattern), word_tokens(glob))


@lru_cache(maxsize=_WORDS_MAX)
def _wildcard_tokens(pattern: str) -> tuple[GlobToken, ...]:
    return tuple(one if one in "*?" else "\\" + one for one in pattern)


def meets(rule: Sequence[GlobToken], word: Sequence[GlobToken]) -> bool:
    """Return whether some text matches a pattern, whose stars also match slashes, and a shell glob."""
    if len(rule) > _TOKENS_MAX or len(word) > _TOKENS_MAX:
        return True
    start = (0, 0, False)
    seen, todo = {start}, [start]
    while todo:
        at, place, took = todo.pop()
        if at == len(rule) and place == len(word):
            return True
        left = rule[at] if at < len(rule) else None
        right = word[place] if place < len(word) else None
        following = [(at + 1, place, took)] if left == "*" else []
        if right in _STARS:
            following.append((at, place + 1, False))
        if left is not None and right is not None and not _leaves_out(rule, at, word, place, took=took):
            stays = right in _STARS
            following.append((at if left == "*" else at + 1, place if stays else place + 1, stays))
        todo += [state for state in following if state not in seen]
        seen.update(following)
    return False


def _leaves_out(rule: Sequence[GlobToken], at: int, word: Sequence[GlobToken], place: int, *, took: bool) -> bool:
    """Return whether no character matches both tokens."""
    left, right = rule[at], word[place]
    if right == UNKNOWN or left in ("*", "?"):
        return False
    if isinstance(right, str) and right.startswith("\\"):
        return not takes(left, right[1:])
    if isinstance(left, tuple):
        return False
    if right == _FOLDERS:
        return left == _DOT and (at == 0 or rule[at - 1] == _SLASH)
    begins = not took and (place == 0 or word[place - 1] in (_SLASH, _FOLDERS))
    return left == _SLASH or (right == "*" and left == _DOT and begins) or not (right == "*" or takes(right, left[1:]))
