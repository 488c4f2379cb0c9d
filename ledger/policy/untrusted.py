"""A policy of rules that nobody vouches for, such as a project's file that was changed since a person trusted it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec.structs import replace

from ledger.core.policy import Call, Evaluation, Grant, Part, Policy, PolicySource, Verdict
from ledger.policy.facts import FileFacts


class UntrustedPolicy:
    """Denies what `policy` denies, and asks a person about every other call.

    No grant lifts such an ask: a rule that would have denied the call may have been removed.
    """

    compat = None
    """As in a dialect whose grants lift no deny."""

    def __init__(self, policy: Policy, reason: str) -> None:
        self._policy = policy
        self._reason = reason

    def __getattr__(self, name: str) -> Any:
        # A dialect's attributes beyond the protocol (a confirm request, its rules) are passed through.
        return getattr(self._policy, name)

    @property
    def source(self) -> PolicySource:
        return self._policy.source

    def with_facts(self, facts: FileFacts) -> UntrustedPolicy:
        """Return the same policy with other facts about files."""
        give = getattr(self._policy, "with_facts", None)
        return self if give is None else UntrustedPolicy(give(facts), self._reason)

    def evaluate(self, call: Call, grants: Sequence[Grant] = ()) -> Evaluation:
        found = self._policy.evaluate(call)
        if found.verdict is Verdict.DENY:
            return found
        parts = found.parts or (Part(" ".join(call.patterns) or call.permission, Verdict.ASK),)
        asked = tuple(replace(part, verdict=Verdict.ASK, rules=(), liftable=False) for part in parts)
        return replace(
            found,
            verdict=Verdict.ASK,
            parts=asked,
            rules=(),
            message=None,
            reason=self._reason,
            always=(),
            ask_first=(),
        )

    def lifts(self, grant: Grant, permission: str, part: Part) -> bool:
        return False

    def disabled(self, tools: Iterable[str]) -> frozenset[str]:
        return self._policy.disabled(tools)
