"""Brace expansion of literal lists and short ranges: `src/{a,b}.ts`, `{1..5}`. Other braces are not plain."""

from __future__ import annotations

import re
from itertools import product
from typing import Final

from ledger.core.late_patterns import late_pattern
from ledger.policy.shell.grammar.nodes import PieceKind, WordPiece
from ledger.policy.shell.lexer import NotPlain

EXPANSIONS_MAX: Final = 64
"""Maximum words that one word may expand to."""

_OTHER: Final = "\0"
"""A placeholder for a piece that is quoted or not literal."""

_GROUP = late_pattern(r"\{([^{}\0]*+)\}")
_RANGE = late_pattern(r"(-?[0-9]{1,6})\.\.(-?[0-9]{1,6})")

Pieces = tuple[WordPiece, ...]


def expand(raw: str, pieces: Pieces) -> list[Pieces]:
    """Return the words that a word expands to. Raises NotPlain where shells may disagree about the list."""
    bare = "".join(_OTHER if piece.quoted or piece.kind is not PieceKind.TEXT else piece.text for piece in pieces)
    if "{" not in bare or not ("," in raw or ".." in raw):
        return [pieces]
    choices = _choices(raw, bare)
    count = 1
    for choice in choices:
        count *= len(choice)
    if count > EXPANSIONS_MAX:
        raise NotPlain(f"`{raw}` expands to more than {EXPANSIONS_MAX} words")
    others = [piece for piece in pieces if piece.quoted or piece.kind is not PieceKind.TEXT]
    return [_filled("".join(parts), others) for parts in product(*choices)]


def _choices(raw: str, bare: str) -> list[list[str]]:
    found, at = list[list[str]](), 0
    for group in _GROUP.finditer(bare):
        items = _items(group[1])
        if items is None:
            continue
        found += [[bare[at : group.start()]], items]
        at = group.end()
    found.append([bare[at:]])
    rest = "".join(choice[0] for choice in found if len(choice) == 1)
    if not any(len(choice) > 1 for choice in found) or "{" in rest.replace("{}", ""):
        raise NotPlain(f"`{raw}` may expand to several words")
    return found


def _items(inside: str) -> list[str] | None:
    if "," in inside:
        return inside.split(",")
    ends = _RANGE.fullmatch(inside)
    if ends is None:
        return None
    first, last = int(ends[1]), int(ends[2])
    if abs(last - first) >= EXPANSIONS_MAX or any(
        len(end.lstrip("-")) > 1 and end.lstrip("-")[0] == "0" for end in ends.groups()
    ):
        raise NotPlain(f"`{{{inside}}}` expands to many words, or to numbers with leading zeros")
    step = 1 if last >= first else -1
    return [str(number) for number in range(first, last + step, step)]


def _filled(text: str, others: list[WordPiece]) -> Pieces:
    rest = iter(others)
    pieces: list[WordPiece] = []
    for part in re.split(f"({_OTHER})", text):
        if part == _OTHER:
            pieces.append(next(rest))
        elif part:
            pieces.append(WordPiece(PieceKind.TEXT, part, quoted=False))
    return tuple(pieces)
