"""A policy with the least strict verdicts that its demands name (`action`), which no rule and no grant lowers. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec.structs import replace

from ledger.core.policy import (
    STRICTNESS,
    Call,
    DemandRule,
    Evaluation,
    Grant,
    Part,
    Policy,
    PolicySource,
    RuleRef,
    Verdict,
    demand_rules,
)
from ledger.policy.demands import rules_about
from ledger.policy.facts import FileFacts


class FlooredPolicy:
    """Judges as `policy` does, but at least as strictly as its demands say."""

    def __init__(self, policy: Policy, floors: Sequence[DemandRule]) -> None:
        self._policy = policy
        self._floors = sorted(floors, key=lambda rule: rule.action != "deny")

    def __getattr__(self, name: str) -> Any:
        # A dialect's attributes beyond the protocol (a confirm request, its rules) are passed through.
        return getattr(self._policy, name)

    @property
    def source(self) -> PolicySource:
        return self._policy.source

    def with_facts(self, facts: FileFacts) -> FlooredPolicy:
        """Return the same policy with other facts about files."""
        give = getattr(self._policy, "with_facts", None)
        return self if give is None else FlooredPolicy(give(facts), self._floors)

    def evaluate(self, call: Call, grants: Sequence[Grant] = ()) -> Evaluation:
        """Return the policy's own evaluation, or a stricter one that names the demand."""
        found = self._policy.evaluate(call, grants)
        stricter = [
            one for one in self._floors if one.action and STRICTNESS[Verdict(one.action)] > STRICTNESS[found.verdict]
        ]
        rule = next(iter(rules_about(stricter, call)), None) if stricter else None
        if rule is None:
            return found
        verdict, ref = Verdict(rule.action or Verdict.ASK), RuleRef(_text(rule))
        text = next(iter(call.patterns), call.tool_name or call.permission)
        part = Part(text, verdict, (ref,), liftable=False)
        reason = f"a demand of the rules says `{verdict}` for calls as this one"
        message = f"Denied by rule: {ref.text}" if verdict is Verdict.DENY else None
        parts, rules = (*found.parts, part), (ref,)
        return replace(found, verdict=verdict, parts=parts, rules=rules, reason=reason, message=message, always=())

    def lifts(self, grant: Grant, permission: str, part: Part) -> bool:
        return part.liftable and self._policy.lifts(grant, permission, part)

    def disabled(self, tools: Iterable[str]) -> frozenset[str]:
        return self._policy.disabled(tools)


def floored(policy: Policy) -> Policy:
    """Return the policy; with its floors, if its demands name any."""
    floors = [rule for rule in demand_rules(policy.source) if rule.action is not None]
    return FlooredPolicy(policy, floors) if floors else policy


def _text(rule: DemandRule) -> str:
    about = " ".join(one for one in (rule.permission, rule.pattern, rule.effect and f"effect {rule.effect}") if one)
    return f"demand {about}{' dangerous' if rule.dangerous else ''} {rule.action}"
