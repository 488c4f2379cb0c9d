"""Judging of patterns by BRUTUS's rules: the last match of the sorted rules, approvals included."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ledger.core.policy import Grant, Part, Verdict
from ledger.policy.brutus.rules import Approvals, Compiled, Key, caseless, sort_key
from ledger.policy.matching.overlap import is_glob, wildcard_meets

_FIRST: Key = (-1, b"")


class Match(NamedTuple):
    """The deciding rule, None without one, and the matching grants that come after it."""

    rule: Compiled | None
    grants: tuple[str, ...] = ()


class BrutusJudge:
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
        self.grants = Approvals(grants, permission)

    def find(self, text: str) -> Match:
        rule = next((rule for rule in self.rules if rule.pattern(text)), None)
        key = rule.key if rule else _FIRST
        if rule is not None and rule.action is Verdict.DENY and self.final_denies:
            return Match(rule)
        # Of equal keys the later rule counts, and approvals come after configured rules.
        approved = (grant_id for grant_id, one in self.grants.about(text) if one.key >= key and one.pattern(text))
        return Match(rule, tuple(approved))

    def restricting(self, text: str) -> Compiled | None:
        """Return the configured rule, no catch-all, that asks about a text or denies it, ignoring case.

        `text` may be a shell glob: then each rule that it may match counts, unless a later one allows everything.
        """
        rule = self.find(text).rule
        if rule is not None and rule.action is not Verdict.ALLOW and not rule.catch_all:
            return rule
        folded = text.casefold()
        rule = next((rule for rule in self.rules if caseless(rule.rule.pattern)(folded)), None)
        if rule is not None and rule.action is not Verdict.ALLOW and not rule.catch_all:
            return rule
        return next(self._meeting(folded), None) if is_glob(text) else None

    def _meeting(self, text: str) -> Iterator[Compiled]:
        for rule in self.rules:
            if rule.catch_all and rule.action is Verdict.ALLOW:
                return
            if (
                rule.action is not Verdict.ALLOW
                and not rule.catch_all
                and wildcard_meets(rule.rule.pattern.casefold(), text)
            ):
                yield rule

    def part(self, text: str) -> Part:
        rule, grants = self.find(text)
        liftable = self._liftable(rule)
        if grants and (rule is None or rule.action is not Verdict.ALLOW):
            return Part(text, Verdict.ALLOW, (), liftable, grants)
        if rule is None:
            return Part(text, Verdict.ASK)
        return Part(text, rule.action, rule.refs, liftable)

    def _liftable(self, rule: Compiled | None) -> bool:
        """Return whether an approval of this very permission would come after the rule."""
        if rule is None:
            return True
        if rule.action is Verdict.DENY and self.final_denies:
            return False
        return sort_key(self.permission) >= rule.key
