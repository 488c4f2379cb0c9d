"""A command line laid out one part a line. Pure, linear, and only for people: nothing is judged by it.

A quoted text is never broken, so that what stands in quotes cannot look like a command of its own.
"""

from __future__ import annotations

import re
from typing import Final

# A row with the operator after it, in one step, so that a long line costs a step a row. Comments and quotes are skipped
# whole. A quote that is never closed runs to the end.
_ROW: Final = re.compile(
    r"""(?:
        [^\s'"\\;&|\#<>`()$]++|\\.|\$'(?:[^'\\]|\\.)*+(?:'|\Z)|'[^']*+(?:'|\Z)|"(?:[^"\\]|\\.)*+(?:"|\Z)|[<>]&?|&>>?
        |(?<![^\s;&|()])\#[^\n]*+
        |[^;&|\n]
    )*+
    (?:&&|\|\||\|&|;;?&?|\||&|\n)[ \t]*+\n?""",
    re.DOTALL | re.VERBOSE,
)


ROWS_COUNT: Final = 500
"""Rows of one line; the last one holds all that follows."""


def rows_of(command: str) -> tuple[str, ...]:
    """Return the parts of a command line, each with the operator after it; joined, they are the line byte for byte."""
    rows: list[str] = []
    begin = 0
    while len(rows) + 1 < ROWS_COUNT:
        row = _ROW.match(command, begin)
        if row is None or row.end() == len(command):
            break
        rows.append(row[0])
        begin = row.end()
    rows.append(command[begin:])
    return tuple(rows)
