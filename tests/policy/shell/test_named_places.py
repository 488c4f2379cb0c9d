"""Paths that a command gets as a name or as the value of an option."""

from __future__ import annotations

from typing import Any, Final

import pytest

from ledger.core.policy import Verdict
from ledger.policy.checks import MappedFacts
from ledger.policy.shell.analyse import analyse
from ledger.policy.shell.forms.objections import named_paths
from tests.policy.dialect_rules import FIVE, FOLDER, allowing, evaluated

PROGRAMS: Final = ("git", "pytest", "cargo", "vitest", "bun", "tsc")
THERE: Final = MappedFacts({"src": "dir", "Makefile": "file", "dist": "dir", "bin/app": "file"}, FOLDER)
LEAVING: Final = (
    "git fetch ../evil",
    "git pull ../evil main",
    "git remote add x ~/evil",
    "pytest --benchmark-save=../x",
)
OVERWRITING: Final = (
    "cargo build --out-dir=src",
    "vitest --outputFile=Makefile",
    "bun build a.ts --outfile ./Makefile",
)
PRODUCING: Final = ("tsc --outDir dist", "bun build a.ts --outfile bin/app", "vitest --outputFile=report.json")


def without_edits(dialect: str) -> dict[str, Any]:
    """Return a configuration that allows the programs, and no edits."""
    config = allowing(dialect, PROGRAMS)
    if dialect in ("claude", "betcode"):
        config["permissions"]["allow"] = [f"Bash({one}:*)" for one in PROGRAMS]
    elif dialect != "codelia":
        config["permission"]["edit"] = "ask"
    return config


@pytest.mark.parametrize("dialect", ["betcode", "claude", "codelia"])  # the others ask about folders apart
def test_a_name_or_a_value_that_leads_out_of_the_project_asks(dialect: str) -> None:
    config = allowing(dialect, PROGRAMS)
    for line in LEAVING:
        assert evaluated(dialect, line, config).verdict is Verdict.ASK, line
    for line in ("git fetch origin", "git log ..main", "git diff main..topic", "pytest --benchmark-save=x"):
        assert evaluated(dialect, line, config).verdict is Verdict.ALLOW, line


def test_a_name_or_a_value_that_leads_out_of_the_folder_is_one_of_the_paths_of_its_command() -> None:
    for line, path in zip(LEAVING, ("../evil", "../evil", "~/evil", "../x"), strict=True):
        assert path in named_paths(analyse(line).commands[0]), line
    assert named_paths(analyse("git fetch origin").commands[0]) == ()


@pytest.mark.parametrize("dialect", FIVE)
def test_an_option_that_writes_over_a_file_needs_an_edit_that_is_allowed(dialect: str) -> None:
    for line in OVERWRITING:
        assert evaluated(dialect, line, without_edits(dialect), THERE).verdict is Verdict.ASK, line
        if dialect != "codelia":
            assert evaluated(dialect, line, allowing(dialect, PROGRAMS), THERE).verdict is Verdict.ALLOW, line
    for line in PRODUCING:
        assert evaluated(dialect, line, without_edits(dialect), THERE).verdict is Verdict.ALLOW, line


@pytest.mark.parametrize("dialect", ["betcode", "claude", "opencode"])
def test_a_line_that_takes_every_file_asks_where_a_rule_denies_some(dialect: str) -> None:
    config = allowing(dialect, ("git", "cat", "xargs", "find", "grep", "rg", "wc"))
    every = (
        "git add -f -A",
        "git add -f .",
        "git ls-files -o | xargs cat",
        "find . -type f | xargs cat",
        "rg --files | xargs cat",
    )
    some = (
        "git add -A",
        "git add src",
        "git ls-files | xargs wc -l",
        "git status",
        "git stash",
        "find . -type f -exec ls {} +",
    )
    if dialect == "opencode":
        config["permission"]["read"] = {"*": "allow", "*.env": "deny"}
    else:
        config["permissions"]["deny"] = ["Read(.env)"]
    for line in every:
        assert evaluated(dialect, line, config).verdict is Verdict.ASK, line
    for line in some:
        reason = evaluated(dialect, line, config).reason
        assert "every file" not in (reason or ""), line
