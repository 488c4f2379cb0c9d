"""Files that affect what later commands do: however a line writes them, edits that are allowed do not cover it."""

from __future__ import annotations

from typing import Final

import pytest

from ledger.core.policy import Verdict
from ledger.policy.checks import MappedFacts
from ledger.policy.shell.tables import is_protected
from tests.policy.dialect_rules import FIVE, FOLDER, allowing, evaluated

PROGRAMS: Final = ("cp", "tar", "echo", "cd", "git", "mkdir", "tee")
WRITES: Final = (
    "cp evil .husky/pre-commit",
    "cp evil .MISE.toml",
    "cp evil .lintstagedrc.js",
    "cp evil .github/workflows/ci.yml",
    "cp evil node_modules/.bin/tsc",
    "cp evil docs/AGENTS.md",
    "tar xf evil.tar -C .git/hooks",
    "git apply --directory .vscode evil.patch",
    "echo x > .husky/pre-commit",
    "echo x >> src/.envrc",
    "cd .git && echo x > config",
    "cd .vscode && cp ../evil.json tasks.json",
    "cd .github && cp ../evil.yml workflows/ci.yml",
)
OTHERS: Final = ("cp a docs/workflows/ci.yml", "cp a .github/labels.yml", "cp a bin/tsc", "cp a docs/a")


@pytest.mark.parametrize("dialect", FIVE)
def test_writing_a_protected_place_asks_although_edits_are_allowed(dialect: str) -> None:
    config = allowing(dialect, PROGRAMS)
    for line in WRITES:
        assert evaluated(dialect, line, config).verdict is Verdict.ASK, line


@pytest.mark.parametrize("dialect", ["claude", "opencode", "brutus"])
def test_a_place_that_only_looks_alike_is_written_where_edits_are_allowed(dialect: str) -> None:
    config = allowing(dialect, PROGRAMS)
    for line in OTHERS:
        assert evaluated(dialect, line, config).verdict is Verdict.ALLOW, line


def test_the_folders_above_the_line_do_not_count() -> None:
    start = "/home/ann/.claude/worktrees/shop"
    assert not is_protected("src/a.py", f"{start}/docs", start)
    assert is_protected("hooks/pre-commit", f"{start}/.git", start)
    assert is_protected("../.git/config", f"{start}/src", start)


@pytest.mark.parametrize("dialect", FIVE)
def test_a_link_to_a_protected_place_is_one(dialect: str) -> None:
    facts = MappedFacts({"hooks": "-> .git/hooks", "docs/out": "-> ../src", "src": "dir"}, FOLDER)
    config = allowing(dialect, PROGRAMS)
    for line in ("cp evil hooks/pre-commit", "echo x > hooks/pre-commit", "tar xf a.tar -C hooks"):
        assert evaluated(dialect, line, config, facts).verdict is Verdict.ASK, line


@pytest.mark.parametrize("dialect", [one for one in FIVE if one != "betcode"])  # it does not follow `cd`
def test_git_asks_in_a_repository_without_a_work_tree_that_stands_in_the_project(dialect: str) -> None:
    bare = {f"vendor/bare/{name}": kind for name, kind in (("HEAD", "file"), ("config", "file"), ("objects", "dir"))}
    facts = MappedFacts({**bare, "vendor/bare/objects/info": "dir", "docs/HEAD": "file"}, FOLDER)
    config = allowing(dialect, PROGRAMS)
    for line in ("cd vendor/bare && git status", "cd vendor/bare/objects/info && git log"):
        assert evaluated(dialect, line, config, facts).verdict is Verdict.ASK, line
    if dialect in ("opencode", "brutus"):  # the others ask about this `cd`, or about `cd` and git in one line
        assert evaluated(dialect, "cd docs && git status", config, facts).verdict is Verdict.ALLOW


@pytest.mark.parametrize("dialect", ["opencode", "brutus"])
def test_the_contents_of_a_folder_and_a_link_to_a_protected_place_ask(dialect: str) -> None:
    config = allowing(dialect, ("cp", "rsync", "ln"))
    for line in (
        "cp -r evil/. .",
        "rsync -a evil/ .",
        "ln -s .git/hooks h && cp evil.sh h/pre-commit",
        "ln -s ../.husky docs/h",
    ):
        assert evaluated(dialect, line, config).verdict is Verdict.ASK, line
    for line in ("cp -r evil/. docs", "cp a .", "rsync -a evil/ docs/"):
        assert evaluated(dialect, line, config).verdict is Verdict.ALLOW, line


@pytest.mark.parametrize("dialect", ["claude", "opencode", "brutus", "betcode"])
def test_unpacking_over_the_project_asks_and_into_a_folder_needs_edits_there(dialect: str) -> None:
    config = allowing(dialect, ("tar", "unzip"))
    for line in ("tar xf a.tar", "tar -xzf a.tgz -C .", "unzip -o a.zip", "unzip a.zip -d ./"):
        assert evaluated(dialect, line, config).verdict is Verdict.ASK, line
    for line in (
        "tar xf a.tar -C docs",
        "tar tf a.tar",
        "tar -xOf a.tar a.txt",
        "unzip -l a.zip",
        "unzip a.zip -d docs",
    ):
        assert evaluated(dialect, line, config).verdict is Verdict.ALLOW, line
    if dialect in ("claude", "betcode"):
        config["permissions"]["allow"] = ["Bash(tar:*)"]
    else:
        config["permission"]["edit"] = "ask"
    assert evaluated(dialect, "tar xf a.tar -C docs", config).verdict is Verdict.ASK
