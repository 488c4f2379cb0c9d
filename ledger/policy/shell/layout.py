"""A command line split into rows for people. Pure and linear; no verdict depends on it.

A quoted text is never split, so that its content cannot look like a separate command.
"""

from __future__ import annotations

import re
from typing import Final

from ledger.core.late_patterns import late_pattern

# A row and the operator after it, in one match, so that a long line costs one step per row. Comments and quotes are
# matched whole. An unclosed quote extends to the end.
_ROW: Final = late_pattern(
    r"""(?:
        [^\s'"\\;&|\#<>`()$]++|\\.|\$'(?:[^'\\]|\\.)*+(?:'|\Z)|'[^']*+(?:'|\Z)|"(?:[^"\\]|\\.)*+(?:"|\Z)|[<>]&?|&>>?
        |(?<![^\s;&|()])\#[^\n]*+
        |[^;&|\n]
    )*+
    (?:&&|\|\||\|&|;;?&?|\||&|\n)[ \t]*+\n?""",
    re.DOTALL | re.VERBOSE,
)


ROWS_COUNT: Final = 500
"""Maximum rows of a line; the last one holds the rest."""


def rows_of(command: str) -> tuple[str, ...]:
    """Return the parts of a command line, each with the operator after it. Joined, they are the line byte for byte."""
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
