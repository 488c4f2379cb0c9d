"""Facts on the agents' pages and in the examples hold: versions that were driven, and sessions with a folder."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.agents.clients import CLIENTS
from tests.docs.running import python_file
from tests.support.command_line import ROOT, CommandLine
from tests.support.waiting import wait_until

PAGES: Final = ROOT / "docs" / "guides" / "agents"
VERSIONED: Final = {
    "Claude Code": "claude",
    "Codelia": "codelia",
    "Codex": "codex",
    "Gemini CLI": "gemini",
    "OpenCode": "opencode",
    "`@opencode-ai/sdk`": "opencode-sdk",
}
CHECKED: Final = re.compile(r"Checked with ([^:,;]*?\d+\.\d+\.\d+)")
NAMED: Final = re.compile(rf"({'|'.join(map(re.escape, VERSIONED))}) (\d+\.\d+\.\d+)")


def checked() -> Iterator[tuple[str, str, str]]:
    """Return each `Checked with NAME VERSION` of a page."""
    for page in sorted(PAGES.glob("*.md")):
        text = " ".join(page.read_text().split())
        for said in CHECKED.findall(text):
            yield from ((page.name, name, version) for name, version in NAMED.findall(said))


def test_the_versions_that_pages_say_were_checked_are_the_ones_that_the_journeys_drive() -> None:
    said = list(checked())
    assert {name for _, name, _ in said} == set(VERSIONED)
    assert [one for one in said if one[2] != CLIENTS[VERSIONED[one[1]]].version] == []


def programs() -> dict[str, str]:
    examples = {str(file.relative_to(ROOT)): file.read_text() for file in sorted((ROOT / "examples").glob("*.py"))}
    page = (PAGES / "python.md").read_text()
    return {**examples, "python.md": re.findall(r"```python\n(.*?)```", page, re.DOTALL)[0]}


@pytest.mark.parametrize("name", programs())
def test_a_program_that_guards_tools_says_the_folder_they_work_in(name: str) -> None:
    calls = [one for one in ast.walk(ast.parse(programs()[name])) if isinstance(one, ast.Call)]
    opened = [one for one in calls if isinstance(one.func, ast.Attribute) and one.func.attr == "session"]
    assert opened, "no session is opened"
    assert all("cwd" in {keyword.arg for keyword in one.keywords} for one in opened)


def test_the_program_of_the_page_for_python_runs_until_it_is_answered(tmp_path: Path) -> None:
    file, home = tmp_path / "agent.py", tmp_path / "data"
    file.write_text(programs()["python.md"])
    command_line = CommandLine(f"embedded://{home}")
    with python_file(file, home) as agent:
        (row,) = wait_until(lambda: command_line("pending", "--json").rows, "the call to be pending")
        assert (row["tool_name"], row["input"]) == ("bash", {"command": "git push", "timeout": 30})
        assert row["cwd"] == str(tmp_path)
        command_line("reply", row["request_id"], "once", code=0)
        out, err = agent.communicate(timeout=60)
    assert (agent.returncode, out, err) == (0, "ran git push\n", "")
