"""The recipes of the first page run; those that need a phone or a team's server are steps of guides whose journeys run them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from tests.docs.test_commands import BLOCK, commands, lines_of_blocks
from tests.support.command_line import ROOT, CommandLine
from tests.support.rows import every
from tests.support.waiting import wait_until

PAGE: Final = (ROOT / "docs" / "README.md").read_text()
RECIPES: Final = dict(
    re.findall(r"^\*\*([^*]+)\.\*\* (.*?)(?=^\*\*|^## )", PAGE.split("## Five recipes\n")[1], re.DOTALL | re.MULTILINE)
)
TUESDAY: Final = "2026-11-24"


def typed(recipe: str) -> list[list[str]]:
    """Return the words of each command of this program."""
    return [words for line in lines_of_blocks(RECIPES[recipe]) for words in commands(line)]


def test_there_are_five_recipes_and_three_ways_in() -> None:
    assert len(RECIPES) == 5
    assert len(re.findall(r"^\*\*You [^*]+\*\*$", PAGE, re.MULTILINE)) == 3


@pytest.mark.process
def test_a_ci_job_runs_once_it_is_released_and_is_found_the_day_after(tmp_path: Path) -> None:
    (tmp_path / "Makefile").write_text("deploy:\n\t@echo deployed\n")
    command_line = CommandLine(f"embedded://{tmp_path / 'data'}", folder=tmp_path)
    ((_, *job),) = typed("A CI job that a person releases")
    with command_line.started("run", *job) as running:
        wait_until(lambda: command_line("pending", "--json").out != "", "the job to be pending")
        command_line("reply", "deploy-1234", "once", code=0)
        out, _ = running.communicate(timeout=60)
    # Under `make test`, this make is one inside another, and says which folder it enters.
    assert (running.returncode, [line for line in out.splitlines() if not line.startswith("make[")]) == (
        0,
        ["deployed"],
    )

    log, show, verify = typed("What happened last Tuesday")
    events = command_line(*log, code=0).out
    assert "make deploy" in events
    today = max(re.findall(r"\d{4}-\d\d-\d\d(?=T)", events))
    at = [{"ses_1": "ci", TUESDAY: today}.get(word, word) for word in show]
    assert "deploy-1234" in command_line(*at, code=0).out
    assert "deploy-1234" not in command_line(*at[:-1], "2020-01-01").out
    judged = command_line(*("ci" if word == "ses_1" else word for word in verify), code=0).out
    assert "session:ci" in judged


def test_the_lines_of_langgraph_are_those_of_the_example_that_the_journeys_run() -> None:
    (program,) = BLOCK.findall(RECIPES["LangGraph"])
    example = (ROOT / "examples" / "langgraph_tools.py").read_text().splitlines()
    assert [line for line in program.splitlines() if line not in example] == []


PAGES: Final = sorted((ROOT / "docs").rglob("*.md"))
MOST_PAGES: Final = 70


def test_there_are_few_pages_and_the_first_one_leads_to_each() -> None:
    assert len(PAGES) <= MOST_PAGES, "a page more takes the place of another: one page an idea"
    linked = {(ROOT / "docs" / link).resolve() for link in re.findall(r"\]\(([^)#:]+)", PAGE)}
    decisions = ROOT / "docs" / "contributing" / "decisions"
    listed = {
        (decisions / link).resolve() for link in re.findall(r"\]\(([^)#:]+)", (decisions / "README.md").read_text())
    }
    assert [page.name for page in PAGES if page not in linked | listed and page != ROOT / "docs" / "README.md"] == []


def test_alert_rules_stand_in_their_file_alone() -> None:
    assert [page.name for page in PAGES if re.search(r"^\s*- alert:", page.read_text(), re.MULTILINE)] == []


GUIDES: Final = {
    "A team's Redis": ("run-for-a-team.md",),
    "Answer on a phone": ("first-hour.md", "answer-from-your-phone.md"),
}


@every("recipe", GUIDES)
def test_a_recipe_has_the_commands_of_a_guide_whose_journey_runs_them(recipe: str) -> None:
    steps = " ".join(
        word for guide in GUIDES[recipe] for word in (ROOT / "docs" / "guides" / guide).read_text().split()
    )
    assert [words for words in typed(recipe) if f"permission-ledger {' '.join(words)}" not in steps] == []
