"""Lines that Claude Code 2.1.197 was asked about, with its answers: `a` it runs, `?` it asks, `d` it denies."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ledger.policy import Call, Layer, PolicySource, Verdict, compile_policy
from ledger.policy.claude import ClaudePolicy

FOLDER = Path(__file__).parents[2] / "data" / "policy"
DATA: dict[str, Any] = json.loads((FOLDER / "claude-lines.json").read_text("utf-8"))
LETTERS = {Verdict.ALLOW: "a", Verdict.ASK: "?", Verdict.DENY: "d"}
STRICTNESS = "a?d"
SETS = [(block, at) for block in DATA["blocks"] for at in range(len(block["sets"]))]


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
def test_no_line_is_looser_than_in_the_program_but_options_that_the_tables_know(
    given: tuple[dict[str, Any], int],
) -> None:
    block, at = given
    name = block["sets"][at]["name"]
    rules = policy(block["sets"][at], "hardened")
    found = [(line, letter(rules, line), answers[at]) for line, answers in block["lines"]]
    looser = [line for line, ours, theirs in found if STRICTNESS.index(ours) < STRICTNESS.index(theirs)]
    assert looser == block["by_tables"][name]
    assert sum(ours == "a" for _, ours, _ in found) == block["allowed"][name]


@pytest.mark.slow
@pytest.mark.parametrize("given", SETS, ids=named)
def test_no_line_is_looser_in_hardened_than_in_faithful(given: tuple[dict[str, Any], int]) -> None:
    block, at = given
    faithful, hardened = (policy(block["sets"][at], profile) for profile in ("faithful", "hardened"))
    found = [(line, letter(faithful, line), letter(hardened, line)) for line, _ in block["lines"]]
    assert [row for row in found if STRICTNESS.index(row[2]) < STRICTNESS.index(row[1])] == []
