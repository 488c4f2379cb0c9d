"""The description of a request, from the tool's input, else from the judged patterns.

`ledger.session.would_run.lines` gives it in lines, for tables, timelines and messages.
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

__all__ = [
    "LINE_CHARS",
    "Input",
    "WouldRun",
    "cut",
    "describe",
    "describe_asked",
    "quoted",
    "told_of",
    "would_run",
]
