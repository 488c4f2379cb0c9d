"""The README shows what really happens: its console session is run and its Python block is parsed."""

from __future__ import annotations

import ast
import re
import shlex
from pathlib import Path
from typing import Final

import pytest

from tests.support.command_line import ROOT, CommandLine
from tests.support.waiting import wait_until

README: Final = (ROOT / "README.md").read_text()
CONSOLE: Final = re.findall(r"```console\n(.*?)```", README, re.DOTALL)
PYTHON: Final = re.findall(r"```python\n(.*?)```", README, re.DOTALL)

# What differs from run to run: times, the machine's own name, and how long ago something was.
VARYING: Final = (
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", "TIME"),
    (r"\S+@\S+", "USER"),
    (r"\d+s ago", "AGO"),
)


def masked(text: str) -> list[str]:
    for pattern, name in VARYING:
        text = re.sub(pattern, name, text)
    return [re.sub(r" {2,}", "  ", line).rstrip() for line in text.splitlines() if line.strip()]


def commands_of(block: str) -> list[tuple[list[str], str]]:
    """Each command of a console block, with what the README says it prints."""
    parts = re.split(r"^\$ permission-ledger ", block, flags=re.MULTILINE)[1:]
    split = [part.partition("\n") for part in parts]
    return [(shlex.split(words), output) for words, _, output in split]


def test_the_session_that_the_readme_shows_is_what_happens(tmp_path: Path) -> None:
    command_line = CommandLine(f"embedded://{tmp_path / 'data'}", {"NO_COLOR": "1"})
    ((ask, asked),) = commands_of(CONSOLE[0])
    answering = commands_of(CONSOLE[1])

    with command_line.started(*ask) as asker:
        wait_until(lambda: command_line("pending", "--json").out != "", "the ask to be pending")
        printed = [(words, command_line(*words, code=0)) for words, _ in answering]
        assert asker.wait(timeout=20) == 0
        assert asker.stdout is not None
        assert asker.stderr is not None
        told = asker.stderr.read() + asker.stdout.read()

    assert masked(told) == masked(asked)
    assert [masked(ran.out) for _, ran in printed] == [masked(output) for _, output in answering]


@pytest.mark.parametrize("block", PYTHON)
def test_every_python_block_is_python(block: str) -> None:
    compile(block, "README.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


@pytest.mark.parametrize("link", sorted(set(re.findall(r"\]\(([^)#]+)\)", README))), ids=str)
def test_every_link_of_the_readme_leads_to_a_file(link: str) -> None:
    assert (ROOT / link).exists()


@pytest.mark.parametrize("page", sorted((ROOT / "docs").rglob("*.md")), ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_of_the_docs_leads_to_a_file(page: Path) -> None:
    broken = [
        link
        for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text())
        if not (page.parent / link).exists()
    ]
    assert broken == []
