"""Lines and options that Claude Code 2.1.197 was asked about, with its answers: `a` it runs, `?` it asks, `d` it denies."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ledger.policy import Call, Layer, PolicySource, Verdict, compile_policy
from ledger.policy.claude import ClaudePolicy
from tests.support.rows import every

FOLDER = Path(__file__).parents[2] / "data" / "policy"
DATA: dict[str, Any] = json.loads((FOLDER / "claude-lines.json").read_text("utf-8"))
OPTIONS: dict[str, list[str]] = json.loads((FOLDER / "claude-options.json").read_text("utf-8"))
LETTERS = {Verdict.ALLOW: "a", Verdict.ASK: "?", Verdict.DENY: "d"}
STRICTNESS = "a?d"
SETS = [(block, at) for block in DATA["blocks"] for at in range(len(block["sets"]))]

STRICTER_OPTIONS = {
    "fd -1 f.txt",
    "fdfind -1 f.txt",
    "jq --color=never f.txt",
    "jq --output=x f.txt",
    "git for-each-ref --format= HEAD",
}


def policy(given: dict[str, Any], profile: str) -> ClaudePolicy:
    layer = Layer("user", config={"permissions": given["permissions"]})
    options = {
        "profile": profile, "cwd": DATA["cwd"], "home": DATA["home"], "fs": DATA["fs"], "mode": given["mode"]
    }  # fmt: skip
    made = compile_policy(PolicySource("claude", (layer,), options))
    assert isinstance(made, ClaudePolicy)
    return made


def letter(rules: ClaudePolicy, line: str) -> str:
    return LETTERS[rules.evaluate(Call("Bash", (), "Bash", {"command": line})).verdict]


def named(given: tuple[dict[str, Any], int]) -> str:
    block, at = given
    return f"{block['name']}, {block['sets'][at]['name']}"


@pytest.mark.parametrize("given", SETS, ids=named)
def test_the_faithful_profile_answers_as_the_program_but_for_the_listed_lines(
    given: tuple[dict[str, Any], int],
) -> None:
    block, at = given
    rules = policy(block["sets"][at], "faithful")
    found = [[line, ours] for line, answers in block["lines"] if (ours := letter(rules, line)) != answers[at]]
    assert found == block["differences"].get(block["sets"][at]["name"], [])


@pytest.mark.slow
@pytest.mark.parametrize("given", SETS, ids=named)
def test_no_line_is_looser_in_hardened_than_in_faithful(given: tuple[dict[str, Any], int]) -> None:
    block, at = given
    faithful, hardened = (policy(block["sets"][at], profile) for profile in ("faithful", "hardened"))
    found = [(line, letter(faithful, line), letter(hardened, line)) for line, _ in block["lines"]]
    assert [row for row in found if STRICTNESS.index(row[2]) < STRICTNESS.index(row[1])] == []


@pytest.mark.slow
@every("program", OPTIONS)
def test_a_program_that_only_looks_runs_with_the_options_with_which_the_program_runs_it(program: str) -> None:
    operand, runs, asks = OPTIONS[program]
    rules = policy({"permissions": {}, "mode": "default"}, "faithful")
    lines = {
        f"{program} {option} {operand}": wanted
        for text, wanted in ((runs, "a"), (asks, "?"))
        for option in text.split()
    }
    wrong = {line for line, wanted in lines.items() if letter(rules, line) != wanted}
    assert wrong == {line for line in STRICTER_OPTIONS if line.startswith(program + " ")}
