"""Text as HTML in which nothing hides: what cannot be seen, or looks like another letter, is marked and named."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from html import escape
from typing import Final

from workers.cli.text import visible

NAMED_COUNT: Final = 4
"""So many are named in a warning; the others are counted."""

_WORD: Final = re.compile(r"\w+")
_LATIN: Final = re.compile(r"[A-Za-z]")
_OTHER_SCRIPTS: Final = (
    "CYRILLIC ",
    "GREEK ",
    "ARMENIAN ",
    "CHEROKEE ",
    "COPTIC ",
    "LISU ",
    "FULLWIDTH ",
    "MATHEMATICAL ",
)


def text(value: str) -> str:
    """On one line, safe as HTML. What is not what it seems stands in `<mark>`."""
    if value.isascii() and value.isprintable():
        return escape(value)
    alike = set(_look_alikes(value))
    return "".join(_written(one, is_alike=index in alike) for index, one in enumerate(value))


def lines(value: str) -> str:
    """The same, and lines stay lines."""
    return "\n".join(text(line) for line in value.split("\n"))


def warning(values: Iterable[str]) -> str:
    """A paragraph on what is odd in these texts, or nothing."""
    odd: dict[str, None] = {}
    for value in values:
        odd.update(dict.fromkeys(one for one in value if one not in "\n\t" and visible(one) != one))
        odd.update(dict.fromkeys(value[index] for index in _look_alikes(value)))
    if not odd:
        return ""
    named = ", ".join(_name(one) for one in list(odd)[:NAMED_COUNT])
    more = f" and {len(odd) - NAMED_COUNT} more" if len(odd) > NAMED_COUNT else ""
    return (
        '<p class="odd"><b>Look closely.</b> It holds characters that cannot be seen or look like others: '
        f"{escape(named)}{more}.</p>"
    )


def _look_alikes(value: str) -> Iterator[int]:
    """Where a word of Latin letters has one of another script."""
    if value.isascii():
        return
    for word in _WORD.finditer(value):
        if not word[0].isascii() and _LATIN.search(word[0]):
            yield from (word.start() + index for index, one in enumerate(word[0]) if _is_of_another_script(one))


def _is_of_another_script(one: str) -> bool:
    return not one.isascii() and unicodedata.name(one, "").startswith(_OTHER_SCRIPTS)


def _written(one: str, *, is_alike: bool) -> str:
    shown = visible(one)
    if is_alike or shown != one:
        return f'<mark title="{escape(_name(one))}">{escape(shown)}</mark>'
    return escape(one)


def _name(one: str) -> str:
    return f"U+{ord(one):04X} {unicodedata.name(one, '')}".strip()
