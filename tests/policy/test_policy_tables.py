"""Tables of rules and answers, taken from the specifications and from observations of the program itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ledger.policy import (
    Call,
    Layer,
    PolicySource,
    Rule,
    Verdict,
    compile_policy,
    disabled,
    evaluate,
    from_config,
    merge,
)
from ledger.policy.matching import match
from tests.support.rows import every

DATA = Path(__file__).parents[1] / "data" / "policy"
HOME = "/home/ann"


def table(name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads((DATA / f"{name}.json").read_text(encoding="utf-8"))
    return rows


def rules(rows: list[list[str]]) -> tuple[Rule, ...]:
    return tuple(Rule(permission, pattern, Verdict(action)) for permission, pattern, action in rows)


def by_order(order: str) -> list[dict[str, Any]]:
    return [row for row in table("evaluate") if row["order"] == order]


@every("row", table("wildcard"), ids=lambda row: f"{row['matcher']}: {row['pattern']!a}")
def test_a_pattern_matches_the_values_that_its_dialect_says(row: dict[str, Any]) -> None:
    values = [*row["matches"], *row["refuses"]]
    matched = [v for v in values if match(v, row["pattern"], slashes=row["slashes"], dot_all=row["dot_all"])]
    assert matched == row["matches"]


@every("row", by_order("insertion"), ids=lambda row: json.dumps(row["rules"])[:80])
def test_the_last_rule_that_matches_decides(row: dict[str, Any]) -> None:
    answers = [[p, text, evaluate(p, text, rules(row["rules"])).action.value] for p, text, _ in row["verdicts"]]
    assert answers == row["verdicts"]


@every("row", table("evaluate"), ids=lambda row: row["order"] + json.dumps(row["rules"])[:80])
def test_a_policy_answers_as_the_table_in_both_orders(row: dict[str, Any]) -> None:
    policy = compile_policy(
        PolicySource(layers=(Layer("table", rules=rules(row["rules"])),), options={"order": row["order"]})
    )
    answers = [[p, text, policy.evaluate(Call(p, (text,))).verdict.value] for p, text, _ in row["verdicts"]]
    assert answers == row["verdicts"]


@pytest.mark.parametrize("row", table("merge"), ids=lambda row: json.dumps(row["rulesets"])[:80])
def test_merging_concatenates_and_sorts_nothing(row: dict[str, Any]) -> None:
    assert merge(*(rules(ruleset) for ruleset in row["rulesets"])) == rules(row["rules"])


@pytest.mark.parametrize("row", table("config"), ids=lambda row: json.dumps(row["config"])[:80])
def test_a_configuration_becomes_one_rule_a_pattern_in_the_order_of_its_keys(row: dict[str, Any]) -> None:
    assert from_config(row["config"], home=HOME) == rules(row["rules"])


@pytest.mark.parametrize("row", table("disabled"), ids=lambda row: json.dumps(row["rules"])[:80])
def test_a_tool_is_disabled_when_its_last_rule_denies_everything(row: dict[str, Any]) -> None:
    assert disabled(row["tools"], rules(row["rules"])) == frozenset(row["disabled"])


@pytest.mark.parametrize("row", table("differences"), ids=lambda row: f"{row['whose']}: {row['what'][:50]}")
def test_a_difference_from_another_program_is_the_documented_one(row: dict[str, Any]) -> None:
    ruleset = from_config(row["config"], home=HOME) if "config" in row else rules(row["rules"])
    assert evaluate(*row["call"], ruleset).action.value == row["ours"]
    assert row["ours"] != row["theirs"]


def test_the_differences_are_six() -> None:
    assert len(table("differences")) == 6
