"""Values of words and variables, as far as they are known before the line runs."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from enum import StrEnum
from typing import Final

import msgspec

from ledger.core.late_patterns import late_pattern
from ledger.policy.shell.model import Word


class Knowledge(StrEnum):
    """Degrees of knowledge of a value."""

    EXACT = "exact"
    GLOB = "glob"  # one name that the glob matches, or the glob itself
    NUMBER = "number"
    NAME = "name"  # one word that begins with a letter or digit; as a path, it is below the folder
    PREFIX = "prefix"  # any text that begins with `text`


class WordValue(msgspec.Struct, frozen=True):
    """A value.

    `text` is all of it, a glob, or its known beginning. `inside`: all its words are paths below the folder, or below
    `text` if that is a full path.
    """

    known: Knowledge
    text: str = ""
    inside: bool = False


UNKNOWN: Final = WordValue(Knowledge.PREFIX)
NUMBER: Final = WordValue(Knowledge.NUMBER, "0")
"""A number without a sign; `0` stands for its unknown first digit."""
NAME: Final = WordValue(Knowledge.NAME, inside=True)
SIGNED: Final = WordValue(Knowledge.NUMBER)

_SPLITS = late_pattern(r"[\s*?\[\\]")
_GLOB = late_pattern(r"[*?\[]")
_INSIDE = late_pattern(r"[A-Za-z0-9_.@*?\[]")
_REST_OF_NAME = late_pattern(r"[A-Za-z0-9_.~^@:,=-]++")
_SIMPLE = late_pattern(r"[A-Za-z0-9_@%+:,./^=*?\[\]~-]++")


_OPEN: Final = frozenset({Knowledge.PREFIX, Knowledge.NUMBER, Knowledge.NAME})
"""Degrees of knowledge in which the text is unknown."""


def exact(text: str) -> WordValue:
    return WordValue(Knowledge.EXACT, text)


def begins(value: WordValue) -> str:
    """Return the common beginning of all possible texts of a value."""
    if value.known is Knowledge.GLOB:
        return _GLOB.split(value.text, maxsplit=1)[0]
    return value.text


def joined(left: WordValue, right: WordValue) -> WordValue:
    """Return the value of two adjacent pieces of a word."""
    if left.known in (Knowledge.NUMBER, Knowledge.NAME) and left != SIGNED:
        plain = right.known is Knowledge.EXACT and _REST_OF_NAME.fullmatch(right.text)
        return NAME if plain else UNKNOWN
    if left.known in _OPEN:
        return WordValue(Knowledge.PREFIX, begins(left))
    if left.known is Knowledge.EXACT and not left.text:
        return right
    if right.known is Knowledge.EXACT and not right.text:
        return left
    if left.known is Knowledge.GLOB and right.known in _OPEN:
        return WordValue(Knowledge.PREFIX, begins(left))
    if right.known in (Knowledge.NUMBER, Knowledge.NAME):
        return WordValue(Knowledge.PREFIX, left.text, right.known is Knowledge.NAME and is_inside(left))
    if right.known is Knowledge.PREFIX:
        return WordValue(Knowledge.PREFIX, left.text + right.text)
    known = Knowledge.GLOB if Knowledge.GLOB in (left.known, right.known) else Knowledge.EXACT
    return WordValue(known, left.text + right.text)


def either(one: WordValue, other: WordValue) -> WordValue:
    """Return the value that holds for both."""
    if one == other:
        return one
    inside = is_inside(one) and is_inside(other)
    return WordValue(Knowledge.PREFIX, *common((begins(one), begins(other)), inside=inside))


def common_beginning(texts: Sequence[str]) -> str:
    """Return the longest common beginning of texts."""
    first, last = min(texts), max(texts)
    at = next((index for index, char in enumerate(first) if char != last[index]), len(first))
    return first[:at]


def common(texts: Sequence[str], *, inside: bool) -> tuple[str, bool]:
    """Return the common beginning of values, and whether all are inside: of a full path only that beginning says where."""
    return common_beginning(texts), inside and len({text.startswith("/") for text in texts}) == 1


def is_inside(value: WordValue) -> bool:
    """Return whether the value is a path below the folder, judged by its characters."""
    if value.known in (Knowledge.EXACT, Knowledge.GLOB):
        return bool(_INSIDE.match(value.text)) and ".." not in value.text.split("/")
    return value.inside


def unquoted(value: WordValue) -> tuple[WordValue, bool]:
    """Return the value of an unquoted variable, and whether it may become several words or none."""
    if value.known in (Knowledge.NUMBER, Knowledge.NAME):
        return value, False
    if value.known is Knowledge.EXACT and value.text and not _SPLITS.search(value.text):
        return value, False
    return WordValue(Knowledge.PREFIX, _SPLITS.split(begins(value), maxsplit=1)[0], is_inside(value)), True


def word_of(value: WordValue, raw: str, *, several: bool, tilde: bool) -> Word:
    """Return the word of a value. `raw` is its source, used if the value is not known."""
    if several or value.known in _OPEN:
        inside = value.inside or value.known is Knowledge.NUMBER
        operand = not several and (value.known is Knowledge.NAME or value == NUMBER)
        return Word(raw, None, prefix=begins(value), several=several, inside=inside, operand=operand)
    is_glob = value.known is Knowledge.GLOB
    simple = _SIMPLE.fullmatch(value.text) and (is_glob or not _GLOB.search(value.text))
    simple = simple and (tilde or not value.text.startswith("~"))
    if simple:
        return Word(value.text, value.text, glob=is_glob, tilde=tilde)
    spelled = re.sub(r"([^A-Za-z0-9_@%+:,./^=*?\[\]-])", r"\\\1", value.text) if is_glob or tilde else None
    return Word(spelled or shlex.quote(value.text), value.text, quoted=True, glob=is_glob, tilde=tilde)
