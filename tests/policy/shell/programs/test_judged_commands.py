"""Commands of every day, which the tables must understand, and commands that they must hold something against."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ledger.policy.shell.forms.reduction import form_of
from ledger.policy.shell.lexer import lex
from tests.policy.shell.programs.worries import obstacle_of
from tests.support.rows import every

COMMANDS = Path(__file__).parents[3] / "data/programs/commands"


def commands(section: str) -> tuple[tuple[str, str], ...]:
    """Return the commands under headings that begin so, each with the rule that the heading names in backticks."""
    return tuple(found for file in sorted(COMMANDS.glob("*.txt")) for found in _under(section, file))


def _under(section: str, file: Path) -> Iterator[tuple[str, str]]:
    heading = ""
    for line in file.read_text(encoding="utf-8").splitlines():
        if line.startswith("# "):
            heading = line.removeprefix("# ")
        elif line and heading.startswith(section):
            yield line, heading.partition("`")[2].rstrip("`")


@every(("line", "rule"), commands("Harmless"))
def test_everyday_commands_are_allowed_where_edits_are(line: str, rule: str) -> None:
    assert obstacle_of(line, rule, editable=True) is None


@every(("line", "rule"), commands("Not harmless"))
def test_what_runs_writes_sends_or_destroys_is_not_covered(line: str, rule: str) -> None:
    assert obstacle_of(line, rule) is not None


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
