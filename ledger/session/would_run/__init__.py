"""The description of a request, from the tool's input, else from the judged patterns.

`ledger.session.would_run.lines` gives it on one line, for rows, timelines and titles.
`ledger.session.would_run.description` gives all of it in sections, for the person who answers; the types are in
`ledger.session.would_run.model`. Every display of the two uses its own escapes.
"""

from __future__ import annotations

from ledger.session.would_run.lines import (
    LINE_CHARS,
    Input,
    WouldRun,
    cut,
    describe,
    describe_asked,
    quoted,
    told_of,
    would_run,
)
from ledger.session.would_run.tool_words import one_line, tool_in_words

__all__ = [
    "LINE_CHARS",
    "Input",
    "WouldRun",
    "cut",
    "describe",
    "describe_asked",
    "one_line",
    "quoted",
    "told_of",
    "tool_in_words",
    "would_run",
]
