"""BRUTUS's specification, row by row: wildcards, order, arity, and what its bash tool asks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ledger.policy import Call, Grant
from ledger.policy.brutus import READING, arity_prefix
from tests.policy.brutus.brutus_calls import PROFILES, bash, policy
from tests.support.rows import every

TABLE: dict[str, list[Any]] = json.loads((Path(__file__).parents[2] / "data/policy/brutus.json").read_text("utf-8"))


@every(("pattern", "value", "matches"), TABLE["wildcards"])
def test_a_wildcard_matches_as_gos_regular_expression_would(pattern: str, value: str, matches: bool) -> None:
    assert READING.matcher(pattern)(value) is matches


@pytest.mark.parametrize("row", TABLE["judged"], ids=lambda row: row["what"])
def test_rules_are_sorted_by_permission_and_the_last_match_decides(row: dict[str, Any]) -> None:
    permission, patterns = row["ask"]
    grants = tuple(Grant("g", *granted) for granted in row.get("grants", []))
    answers = [
        policy(row["rules"], profile=profile).evaluate(Call(permission, tuple(patterns)), grants).verdict.value
        for profile in PROFILES
    ]
    assert answers == [row["verdict"], row.get("hardened", row["verdict"])]


@every(("command", "prefix"), TABLE["arity"])
def test_an_approval_covers_as_many_words_as_the_longest_entry_that_fits(command: str, prefix: str) -> None:
    assert arity_prefix(command.split()) == tuple(prefix.split())


@every("row", TABLE["lines"], ids=lambda row: row["line"])
@every("profile", PROFILES)
def test_the_bash_tool_asks_for_folders_first_and_then_for_commands(row: dict[str, Any], profile: str) -> None:
    rules = policy([], profile=profile)
    more = {"workdir": row["workdir"]} if "workdir" in row else {}
    evaluation = rules.evaluate(bash(row["line"], **more))
    assert [part.text for part in evaluation.parts if type(part).__name__ == "Part"] == row["patterns"]
    assert list(evaluation.always) == row["always"]
    outside, grant = row.get("outside", []), row.get("grant", [])
    if profile == "hardened":
        outside, grant = row.get("hard_outside", outside), row.get("hard_grant", grant)
    assert [path for call in evaluation.ask_first for path in call.patterns] == outside
    assert [entry for call in evaluation.ask_first for entry in rules.evaluate(call).always] == grant


def test_the_table_has_at_least_thirty_rows() -> None:
    assert sum(map(len, TABLE.values())) >= 30
