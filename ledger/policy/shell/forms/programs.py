"""The program tables; each is decoded on the first request for its program."""

from __future__ import annotations

from functools import cache

from ledger.policy.data_files import Span, program_spans, read_span
from ledger.policy.shell.forms.nodes import ProgramNode
from ledger.policy.shell.names import lookups


@cache
def _table(span: Span) -> ProgramNode:
    return read_span(ProgramNode, span)


def known_programs() -> tuple[str, ...]:
    """Return every name of a program that has a table, sorted."""
    return tuple(sorted(program_spans()))


def program_table(program: str) -> ProgramNode | None:
    """Return the table of a program by its name in a command, with or without a path; None without one."""
    spans = program_spans()
    return next((_table(spans[name]) for name in lookups(program) if name in spans), None)
