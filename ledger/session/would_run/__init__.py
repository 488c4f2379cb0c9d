"""The description of a request: what would run, told from the tool's input, else from the patterns that were judged.

`ledger.session.would_run.lines` tells it in lines, for tables, timelines and messages.
`ledger.session.would_run.describing` tells all of it, section by section, for whoever answers; its shape is in
`ledger.session.would_run.model`. Every reader draws these two with its own escapes.
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
