"""The tables of programs: all can be read, and no option that was listed as dangerous is harmless in them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from importlib.resources import files
from typing import Final

import pytest

from ledger.policy.shell.forms import OperandKind, known_programs, program_table
from ledger.policy.shell.forms.nodes import ProgramNode
from ledger.policy.shell.forms.notation import read_tables
from ledger.policy.shell.tables import ARGUMENTS
from ledger.policy.shell.tables.arguments import DangerousArguments
from tests.policy.shell.programs.worries import worries

TABLES: Final = files("ledger.policy.shell") / "programs"


@pytest.mark.parametrize("program", known_programs())
def test_every_table_is_read_and_says_what_it_was_made_from(program: str) -> None:
    table = program_table(program)
    assert table is not None
    assert table.version


def test_no_program_has_two_tables() -> None:
    names = [
        name
        for file in sorted(TABLES.iterdir(), key=str)
        if file.name.endswith(".toml")
        for node, aliases in read_tables(file.read_text(encoding="utf-8"))
        for name in (node.name, *aliases)
    ]
    assert [name for name, count in Counter(names).items() if count > 1] == []


def listed() -> Iterator[str]:
    """Yield a command for each listed argument of a program that has a table by its own name."""
    for program, danger in ARGUMENTS.items():
        table = program_table(program)
        if table is not None and table.name == program:
            yield from commands(program, danger, table)


def commands(start: str, danger: DangerousArguments, table: ProgramNode) -> Iterator[str]:
    if danger.always:
        yield f"{start} x"
        return
    dash = "-" if danger.one_dash else "--"
    yield from (f"{start} {dash}{name}" for name in danger.long)
    yield from (f"{start} {dash}{name}=x" for name in danger.long)
    yield from (f"{start} -{letter}" for letter in danger.short)
    for sub, node in table.commands.items():
        yield from (f"{start} {sub} --{name}=x" for name in danger.long if f"--{name}" in node.options)
    tasks = table.operands is not None and table.operands.kind_at(0) is OperandKind.TASK
    always = dict.fromkeys(sorted(danger.always_subcommands), DangerousArguments(always=True))
    for name, inner in (danger.subcommands | always).items():
        if tasks and name not in table.commands:
            continue  # `yarn deploy` is a task of the project
        yield from commands(f"{start} {name}", inner, table.commands.get(name, table))


MEANT = frozenset(
    [
        "cargo init x",
        "cmake --build=x",
        "cargo new x",
        "cargo r x",
        "cargo run x",
        "go clean x",
        "go generate x",
        "go get x",
        "go run x",
        "rustc x",
        "pnpm help x",
        "yarn help x",
    ]
)
"""Commands that a rule for the whole program covers: work on the project's own code, and at its own request."""


@pytest.mark.parametrize("line", sorted(set(listed()) - MEANT))
def test_no_listed_argument_is_harmless_by_a_table(line: str) -> None:
    assert worries(line)
