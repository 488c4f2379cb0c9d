"""Demands by the effect of a call: conditions on its answer, and the least strict verdict on it."""

from __future__ import annotations

from typing import Any, Final

import pytest

from ledger.core.policy import EFFECTS, Call, Demand, Grant, Policy, PolicySource, Verdict
from ledger.policy.demands import demands_on, with_demands
from ledger.policy.dialects import DIALECTS, compile_policy
from ledger.policy.errors import PolicyError

PASSKEY: Final = {"answer_by": "passkey", "effect": "irreversible"}
ALLOWED: Final = PolicySource("opencode", options={"cwd": "/w", "home": "/h"})


def policy_with(*demands: dict[str, Any]) -> Policy:
    return compile_policy(with_demands(ALLOWED, demands))


def bash(line: str) -> Call:
    return Call("bash", (line,), "bash", {"command": line}, "/w")


@pytest.mark.parametrize(
    ("line", "effect", "is_met"),
    [
        ("git push", "irreversible", False),
        ("git push", "changes_elsewhere", True),
        ("git push --force", "changes_elsewhere", True),
        ("git push --force", "irreversible", True),
        ("git status; frobnicate", "irreversible", True),
        ("git status", "changes_here", False),
        ("git status", "reads", True),
    ],
)
def test_a_demand_by_effect_concerns_calls_of_this_effect_or_a_worse_one(line: str, effect: str, is_met: bool) -> None:
    demands = demands_on(policy_with({**PASSKEY, "effect": effect}), bash(line))
    assert demands == ((Demand(answer_by="passkey"),) if is_met else ())


def test_an_unknown_effect_is_refused_with_the_four_words() -> None:
    with pytest.raises(PolicyError) as refused:
        with_demands(ALLOWED, [{**PASSKEY, "effect": "worst"}])
    assert all(f"`{one}`" in str(refused.value) for one in EFFECTS)
    assert "not `worst`" in str(refused.value)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(("action", "verdict"), [("ask", Verdict.ASK), ("deny", Verdict.DENY)])
def test_no_rule_of_any_dialect_allows_what_a_demand_asks_about(dialect: str, action: str, verdict: Verdict) -> None:
    source = PolicySource(dialect, options={"cwd": "/w", "home": "/h"})
    rules = with_demands(source, [{"effect": "changes_elsewhere", "action": action}])
    policy = compile_policy(rules)
    call = Call(DIALECTS[dialect].shell_permission, (), DIALECTS[dialect].language.shell, {"command": "git push"}, "/w")
    assert policy.evaluate(call).verdict is verdict


def test_a_floor_holds_against_rules_and_grants_and_leaves_milder_calls_alone() -> None:
    source = PolicySource(
        "opencode", layers=(DIALECTS["opencode"].load("r.json", content=b'{"permission": {"bash": "allow"}}'),)
    )
    policy = compile_policy(with_demands(source, [{"effect": "irreversible", "action": "ask"}]))
    grant = Grant("g", "bash", "*")
    assert policy.evaluate(bash("git status")).verdict is Verdict.ALLOW
    found = policy.evaluate(bash("git reset --hard"), (grant,))
    assert found.verdict is Verdict.ASK
    assert [rule.text for rule in found.rules] == ["demand * * effect irreversible ask"]
    assert not any(policy.lifts(grant, "bash", part) for part in found.parts if part.verdict is Verdict.ASK)
    assert demands_on(policy, bash("git reset --hard")) == ()
