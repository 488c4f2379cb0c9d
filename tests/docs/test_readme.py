"""The README shows real output: its console session and its Python file are run unchanged."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Final

from ledger.core.extras import PACKAGES
from tests.docs.running import python_file
from tests.support.command_line import ROOT, CommandLine
from tests.support.rows import every
from tests.support.waiting import wait_until

README: Final = (ROOT / "README.md").read_text()
CONSOLE: Final = re.findall(r"```console\n(.*?)```", README, re.DOTALL)
PYTHON: Final = re.findall(r"```python\n(.*?)```", README, re.DOTALL)

TRY: Final = "try-1764437092"

# What differs from run to run: times, the machine's own name, and how long ago something was.
VARYING: Final = (
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", "TIME"),
    (r"\S+@\S+", "USER"),
    (r"\d+s ago|in \d+d", "TIME"),  # at a terminal; elsewhere it is a whole time
    (rf"{re.escape(str(ROOT))}(?![\w/])|/home/dev/shop", "FOLDER"),
)


def masked(text: str) -> list[str]:
    for pattern, name in VARYING:
        text = re.sub(pattern, name, text)
    return [re.sub(r" {2,}", "  ", line).rstrip() for line in text.splitlines() if line.strip()]


def commands_of(block: str) -> list[tuple[list[str], str]]:
    """Return each command of a console block, with its output in the README; `$TRY` is the name that it shows."""
    block = block.replace("$TRY", TRY)
    parts = re.split(r"^\$ permission-ledger ", block, flags=re.MULTILINE)[1:]
    split = [part.partition("\n") for part in parts]
    return [(shlex.split(words), output) for words, _, output in split]


def test_the_session_that_the_readme_shows_is_what_happens(tmp_path: Path) -> None:
    command_line = CommandLine(f"embedded://{tmp_path / 'data'}", {"NO_COLOR": "1"})
    assert CONSOLE[0].startswith("$ TRY=try-$(date +%s)\n"), "fresh each time"
    ((ask, asked),) = commands_of(CONSOLE[0])
    answering = commands_of(CONSOLE[1])

    with command_line.started(*ask) as asker:
        wait_until(lambda: command_line("pending", "--json").out != "", "the ask to be pending")
        printed = [(words, command_line(*words, code=0)) for words, _ in answering]
        assert asker.wait(timeout=60) == 0
        assert asker.stdout is not None
        assert asker.stderr is not None
        told = asker.stderr.read() + asker.stdout.read()

    assert masked(told) == masked(asked)
    assert [masked(ran.out) for _, ran in printed] == [masked(output) for _, output in answering]


def test_the_python_block_is_a_file_that_runs_until_it_is_answered(tmp_path: Path) -> None:
    (program,) = PYTHON
    (tmp_path / "agent.py").write_text(program)
    answering = re.search(r"`permission-ledger (reply ID once)`", README)
    assert answering is not None
    home = tmp_path / "data"
    command_line = CommandLine(f"embedded://{home}")
    with python_file(tmp_path / "agent.py", home) as agent:
        wait_until(lambda: command_line("pending", "--json").out != "", "the ask to be pending")
        (waits,) = command_line("pending", "--json").rows
        command_line(*answering[1].replace("ID", waits["request_id"]).split(), code=0)
        out, err = agent.communicate(timeout=60)
    assert (agent.returncode, err) == (0, "")
    first, denied, last = out.splitlines()
    assert (first, last) == ("git status: allowed by a rule", "git push: allowed")
    assert denied.startswith("The user has specified a rule which prevents you from using this specific tool call.")


def test_the_install_commands_name_extras_that_exist() -> None:
    groups = re.findall(r"(?:\.|permission-ledger)\[([a-z,-]+)\]", README)
    named = {extra for group in groups for extra in group.split(",")}
    assert named == {"embedded", "gateway"}
    assert named <= set(PACKAGES)
    assert re.findall(r"[a-z]*(?:pypi|github|gitlab)[a-z.]*", README) == []


@every("link", sorted(set(re.findall(r"\]\(([^)#]+)\)", README))), ids=str)
def test_every_link_of_the_readme_leads_to_a_file(link: str) -> None:
    assert (ROOT / link).exists()


@every("page", sorted((ROOT / "docs").rglob("*.md")), ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_of_the_docs_leads_to_a_file(page: Path) -> None:
    broken = [
        link
        for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text())
        if not (page.parent / link).exists()
    ]
    assert broken == []
