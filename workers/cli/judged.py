"""The evaluations of checked sessions, judged again from the log, for `verify --judge`."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec

from ledger import DamageError, Ledger
from ledger.log.judgements import judge_again
from ledger.policy.replayed import ReplayedPolicies
from ledger.session.judged_again import DIFFERENT, NOT_DECIDABLE, SAME, JudgedAgain
from workers.upkeep.stream_checks import Checked


class JudgedSession(msgspec.Struct, frozen=True):
    """The number of a session's evaluations by result, and those that are not the same."""

    session: str
    counts: dict[str, int]
    others: list[JudgedAgain]

    def as_json(self) -> dict[str, Any]:
        return {**self.counts, "events": msgspec.to_builtins(self.others)}


class SessionJudge:
    """Judges sessions one after the other, and keeps the results."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._policies = ReplayedPolicies()
        self._sessions: list[JudgedSession] = []

    async def of(self, checked: Checked) -> JudgedSession | None:
        """Judge every evaluation of a session again; None for another stream, and for a damaged one."""
        if checked.key.kind != "session" or not checked.ok:
            return None
        counts: Counter[str] = Counter()
        others: list[JudgedAgain] = []
        try:
            async for one in judge_again(self._ledger.store, checked.key.id, policies=self._policies):
                counts[one.result] += 1
                if one.result != SAME:
                    others.append(one)
        except DamageError:  # of the project's stream, whose own check reports it
            return None
        found = JudgedSession(
            checked.key.id, {result: counts[result] for result in (SAME, DIFFERENT, NOT_DECIDABLE)}, others
        )
        self._sessions.append(found)
        return found

    @property
    def ok(self) -> bool:
        return self._count(DIFFERENT) == 0

    @property
    def summary(self) -> str:
        return (
            f"{self._count(SAME) + self._count(DIFFERENT) + self._count(NOT_DECIDABLE)} evaluations judged again: "
            f"{self._count(SAME)} same, {self._count(DIFFERENT)} different, {self._count(NOT_DECIDABLE)} not decidable"
        )

    def lines(self) -> list[str]:
        """Return a line for each event that is not the same."""
        return [
            f"{one.result.replace('_', ' ')}: session {of.session}, version {one.version} "
            f"({one.type} {one.request_id}): {one.reason}"
            for of in self._sessions
            for one in of.others
        ]

    def _count(self, result: str) -> int:
        return sum(one.counts[result] for one in self._sessions)
