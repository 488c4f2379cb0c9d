"""A command line laid out one part a line. Pure, linear, and only for people: nothing is judged by it.

A quoted text is never broken, so that what stands in quotes cannot look like a command of its own.
"""

from __future__ import annotations

import re
from typing import Final

# An operator with the blanks after it ends a row; so does a newline. Comments and quotes are skipped whole. A quote
# that is never closed runs to the end.
_STEP: Final = re.compile(
    r"""(?P<skip>[^\s'"\\;&|\#<>`()$]++|\\.|\$'(?:[^'\\]|\\.)*+(?:'|\Z)|'[^']*+(?:'|\Z)|"(?:[^"\\]|\\.)*+(?:"|\Z)|[<>]&?|&>>?|>\|)
    |(?P<end>(?:&&|\|\||\|&|;;?&?|\||&|\n)[ \t]*+\n?)
    |(?P<comment>(?<![^\s;&|()])\#[^\n]*+)
    |.""",
    re.DOTALL | re.VERBOSE,
)


ROWS_COUNT: Final = 500
"""Rows of one line; the last one holds all that follows."""


def rows_of(command: str) -> tuple[str, ...]:
    """Return the parts of a command line, each with the operator after it; joined, they are the line byte for byte."""
    rows: list[str] = []
    begin = 0
    for step in _STEP.finditer(command):
        if len(rows) + 1 == ROWS_COUNT:
            break
        if step["end"] is not None and step.end() < len(command):
            rows.append(command[begin : step.end()])
            begin = step.end()
    rows.append(command[begin:])
    return tuple(rows)
