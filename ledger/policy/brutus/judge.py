"""Patterns judged by BRUTUS's rules: the last match of the sorted rules, approvals among them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ledger.policy.brutus.rules import Compiled, Key, granted, sort_key
from ledger.policy.model import Grant, Part, Verdict

_FIRST: Key = (-1, b"")


class Match(NamedTuple):
    """The rule that decides, None without one; and the grants that come after it, if any matches."""

    rule: Compiled | None
    grants: tuple[str, ...] = ()


class Judge:
    """The sorted rules with one call's grants, for one permission.

    In the hardened profile (`final_denies`) a grant does not lift a configured deny.
    """

    def __init__(
        self,
        last_first: Sequence[Compiled],
        permission: str,
        grants: Sequence[Grant] = (),
        *,
        final_denies: bool = True,
    ) -> None:
        self.permission = permission
        self.final_denies = final_denies
        self.rules = [rule for rule in last_first if rule.permission(permission)]
        self.grants = [(grant.grant_id, rule) for grant, rule in granted(grants) if rule.permission(permission)]

    def find(self, text: str) -> Match:
        rule = next((rule for rule in self.rules if rule.pattern(text)), None)
        key = rule.key if rule else _FIRST
        if rule is not None and rule.action is Verdict.DENY and self.final_denies:
            return Match(rule)
        # Of equal keys the later rule counts, and approvals stand after what is configured.
        return Match(rule, tuple(grant_id for grant_id, one in self.grants if one.key >= key and one.pattern(text)))

    def part(self, text: str) -> Part:
        rule, grants = self.find(text)
        liftable = self._liftable(rule)
        if grants and (rule is None or rule.action is not Verdict.ALLOW):
            return Part(text, Verdict.ALLOW, (), liftable, grants)
        if rule is None:
            return Part(text, Verdict.ASK)
        return Part(text, rule.action, rule.refs, liftable)

    def _liftable(self, rule: Compiled | None) -> bool:
        """Whether an approval of this very permission would come after the rule."""
        if rule is None:
            return True
        if rule.action is Verdict.DENY and self.final_denies:
            return False
        return sort_key(self.permission) >= rule.key
