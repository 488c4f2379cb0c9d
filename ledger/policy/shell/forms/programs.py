"""The program tables; each is decoded on the first request for its program."""

from __future__ import annotations

from functools import cache

from ledger.policy.data_files import program_lines, read_line
from ledger.policy.shell.forms.nodes import ProgramNode
from ledger.policy.shell.names import lookups


@cache
def _table(line: int) -> ProgramNode:
    return read_line(ProgramNode, line)


def known_programs() -> tuple[str, ...]:
    """Return every name of a program that has a table, sorted."""
    return tuple(sorted(program_lines()))


def program_table(program: str) -> ProgramNode | None:
    """Return the table of a program by its name in a command, with or without a path; None without one."""
    lines = program_lines()
    return next((_table(lines[name]) for name in lookups(program) if name in lines), None)
