"""The examples of the guides about rules print what the page shows."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Final

import pytest
from click.testing import CliRunner

from tests.support.command_line import ROOT
from tests.support.rows import every
from workers.cli import cli

GUIDES: Final = ROOT / "docs" / "guides"
CONSOLE: Final = re.compile(r"^```console\n\$ ([^\n]*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
RULES: Final = re.compile(r"^```json\n(.*?)^```", re.DOTALL | re.MULTILINE)
ROW: Final = re.compile(r"^\| `([^|]*)` \| ([^|]*) \| ?([^|]*) ?\|$", re.MULTILINE)
PAGES: Final = ("explain.md", "commands.md")
EXAMPLES: Final = [
    (page, command, shown) for page in PAGES for command, shown in CONSOLE.findall((GUIDES / page).read_text())
]
FORMS: Final = ROW.findall((GUIDES / "commands.md").read_text().partition("\n## Plain lines\n")[0])


def printed(command: str) -> str:
    """Return the stdout of a command of this program."""
    program, *words = shlex.split(command)
    assert program == "permission-ledger"
    return CliRunner().invoke(cli, words).stdout


@pytest.mark.parametrize(("page", "command", "shown"), EXAMPLES, ids=[command for _, command, _ in EXAMPLES])
def test_a_command_prints_what_its_page_shows(
    page: str, command: str, shown: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for rules in RULES.findall((GUIDES / page).read_text()):
        (tmp_path / "rules.json").write_text(rules)
    monkeypatch.chdir(tmp_path)
    assert printed(command).rstrip() == shown.rstrip()


def test_the_page_has_twenty_examples_of_forms() -> None:
    assert len(FORMS) >= 20


@every(("command", "form", "unclear"), FORMS)
def test_a_command_has_the_form_that_the_page_shows(command: str, form: str, unclear: str) -> None:
    lines = printed(f"permission-ledger policy shell {shlex.quote(command)}").splitlines()
    at = lines.index(f"`{command}`: {form}")
    told = [
        line.removeprefix("  not understood: ") for line in lines[at + 1 :] if line.startswith("  not understood: ")
    ]
    assert "; ".join(told) == unclear.strip()
