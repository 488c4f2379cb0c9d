"""Overlap of two globs: some text matches both. Pure; for deny and ask rules and for warnings only.

The shell's `*`, `?` and `[…]` match within one name, and a `*` that begins a name skips files that begin with a dot;
so does `**`, which matches any number of folders.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from ledger.core.late_patterns import late_pattern
from ledger.policy.matching.tokens import (
    ANY,
    STAR,
    Automaton,
    CharacterSet,
    GlobToken,
    Star,
    name_tokens,
    takes,
    wildcard_tokens,
)

UNKNOWN: Final = "\ufffe"
"""Any text at all in a word, slashes and dots included. It is a Unicode noncharacter."""

_NAME_STAR: Final = Star("/", hidden=False)
_FOLDERS: Final = Star(hidden=False)
_IN_A_NAME: Final[dict[GlobToken, GlobToken]] = {
    STAR: _NAME_STAR,
    ANY: CharacterSet(negated=True, ranges=(("/", "/"),)),
}
_GLOB = late_pattern(rf"[*?\[{UNKNOWN}]")
_WORD_PIECE = late_pattern(rf"(?:(?<=/)|\A)\*\*+(?=/|\Z)|{UNKNOWN}+")
_WORDS_MAX: Final = 4_096
_TOKENS_MAX: Final = 4_096
"""Tokens, at most, of a text that is compared; a longer one counts as overlapping every pattern."""

_PAIRS_COUNT: Final = 250_000
"""Pairs of characters, at most, that two wildcards are compared by; longer ones count as overlapping."""


def is_glob(text: str) -> bool:
    """Return whether a text holds a character that the shell may expand to names of files."""
    return _GLOB.search(text) is not None


@lru_cache(maxsize=_WORDS_MAX)
def word_tokens(text: str) -> tuple[GlobToken, ...]:
    """Return the tokens of a shell glob."""
    tokens: list[GlobToken] = []
    end = 0
    for piece in _WORD_PIECE.finditer(text):
        tokens += _within_names(text[end : piece.start()])
        tokens.append(STAR if piece.group().startswith(UNKNOWN) else _FOLDERS)
        end = piece.end()
    return (*tokens, *_within_names(text[end:]))


def _within_names(text: str) -> list[GlobToken]:
    return [_IN_A_NAME.get(token, token) for token in name_tokens(text)]


def wildcard_meets(pattern: str, glob: str) -> bool:
    """Return whether some text matches a wildcard (`*` any text, `?` any character) and a shell glob."""
    return meets(_kept_tokens(pattern), word_tokens(glob))


_kept_tokens = lru_cache(maxsize=_WORDS_MAX)(wildcard_tokens)


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
        stays = isinstance(right, Star)
        following = [(at + 1, place, took)] if left == STAR else []
        if stays:
            following.append((at, place + 1, False))
        if left is not None and right is not None and not _leaves_out(rule, at, word, place, took=took):
            following.append((at if left == STAR else at + 1, place if stays else place + 1, stays))
        todo += [state for state in following if state not in seen]
        seen.update(following)
    return False


def _leaves_out(rule: Sequence[GlobToken], at: int, word: Sequence[GlobToken], place: int, *, took: bool) -> bool:
    """Return whether no character matches both tokens."""
    left, right = rule[at], word[place]
    if right == STAR or left in (STAR, ANY):
        return False
    if isinstance(right, str):
        return not takes(left, right)
    if not isinstance(left, str):
        return False
    if right == _FOLDERS:
        return left == "." and (at == 0 or rule[at - 1] == "/")
    if isinstance(right, CharacterSet):
        return left == "/" or not right.takes(left)
    begins = not took and (place == 0 or word[place - 1] in ("/", _FOLDERS))
    return left == "/" or (left == "." and begins)


def wildcards_meet(one: str, other: str) -> bool:
    """Return whether some text matches both wildcards; a ` *` at the end of either is optional.

    Time is linear in the product of their lengths. Patterns over `_PAIRS_COUNT` count as overlapping.
    """
    return any(
        len(a) * len(b) > _PAIRS_COUNT or _end_together(a, b)
        for a in {one, one.removesuffix(" *")}
        for b in {other, other.removesuffix(" *")}
    )


def _end_together(one: str, other: str) -> bool:
    """Return whether the tokens of one wildcard lead to the end of the other; a star leads to each later place."""
    tokens = wildcard_tokens(other)
    automaton = Automaton(len(tokens), [at for at, token in enumerate(tokens) if token == STAR])
    state = automaton.start
    for left in wildcard_tokens(one):
        taken = sum(
            1 << at for at, token in enumerate(tokens) if isinstance(left, CharacterSet) or token in (left, ANY, STAR)
        )
        state = automaton.onward(state) if left == STAR else automaton.skip(automaton.after(state, taken))
    return state & automaton.end != 0
