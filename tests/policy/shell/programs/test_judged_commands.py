"""Commands of every day, which the tables must understand, and commands that they must hold something against."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ledger.policy.shell.forms import form_of
from ledger.policy.shell.lexer import lex
from tests.policy.shell.programs.worries import unspelled, worries

COMMANDS = Path(__file__).parents[3] / "data/programs/commands"


def commands(section: str) -> Iterator[str]:
    """Yield the commands of all files that stand under a heading that begins with this word."""
    for file in sorted(COMMANDS.glob("*.txt")):
        heading = ""
        for line in file.read_text(encoding="utf-8").splitlines():
            if line.startswith("# "):
                heading = line.removeprefix("# ")
            elif line and heading.startswith(section):
                yield line


@pytest.mark.parametrize("line", tuple(commands("Harmless")))
def test_everyday_commands_are_understood(line: str) -> None:
    assert unspelled(line) == []


@pytest.mark.parametrize("line", tuple(commands("Not harmless")))
def test_what_runs_writes_sends_or_destroys_is_not_harmless(line: str) -> None:
    assert worries(line)


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("git push origin +main:main", {"--force"}),
        ("git push origin :main", {"--delete"}),
        ("git push --mirror origin", {"--force", "--delete"}),
        ("git branch -D x", {"--delete", "--force"}),
        ("git checkout -B x", {"--force"}),
    ],
)
def test_options_and_operands_imply_what_a_deny_may_name(line: str, names: set[str]) -> None:
    form = form_of(lex(line).commands[0])
    assert form is not None
    assert names <= form.names
