"""The reach of an offered grant over past requests: those that it would have answered. Pure.

Nothing is approximated: a past call is judged by `ledger.session.first.judge`, as an ask of now would be, with the grants
in force and with the offered ones beside them. It is judged by the rules, grants and files of now, because they decide
about the next such call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

import msgspec
from msgspec.structs import replace

from ledger.core.events import Actor, Outcome
from ledger.core.grants import Grants, StandingGrant
from ledger.core.masked_text import holds_mask
from ledger.core.policy import Call, Demand, Policy, Verdict
from ledger.core.standing import Standing, kept
from ledger.policy.demands import demands_on
from ledger.project.state import ProjectState
from ledger.session.demands import that_count
from ledger.session.first import judge
from ledger.session.state import SessionState

EXAMPLES_COUNT: Final = 5
"""Distinct past calls, at most, that are named for one choice."""


class PastRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request that waited for a person. `outcome` None: it is pending; `by` is the person who answered."""

    session: str
    request_id: str
    version: int
    asked_ms: int
    outcome: Outcome | None = None
    by: str | None = None

    @property
    def is_rejected(self) -> bool:
        """Return whether a person said no."""
        return self.outcome in ("rejected", "corrected")


class PastRequests(msgspec.Struct, frozen=True, kw_only=True):
    """Past requests, the newest first. `is_cut`: there are more since `since_ms` (server ms) than were looked at.

    `source` is where they were found: an index of requests, or the log itself.
    """

    found: tuple[PastRequest, ...]
    source: Literal["index", "log"]
    since_ms: int
    is_cut: bool = False


class PastCall(NamedTuple):
    """A past request with its call, its asker and its description in one line."""

    request: PastRequest
    call: Call
    asking: tuple[str, ...]
    line: str


class Ground(NamedTuple):
    """The inputs of a judgement in one session as of now (server ms)."""

    state: SessionState
    project: ProjectState | None
    policy: Policy
    now_ms: int


class OfferedGrants(NamedTuple):
    """Grants that an answer could make. `signed`: a passkey would sign that answer."""

    grants: Grants
    signed: bool


class Reached(msgspec.Struct, frozen=True, kw_only=True):
    """The past requests that a choice would have answered: their number, and distinct examples, rejected ones first."""

    answered: int = 0
    here: int = 0
    """Those of the same session."""
    rejected: int = 0
    examples: tuple[PastCall, ...] = ()


def offered_grants(permission: str, entries: Sequence[str], by: Actor, *, signed: bool, now_ms: int) -> OfferedGrants:
    """Return the grants of an answer by this person."""
    made = (
        StandingGrant(
            grant_id=f"offered {number}",
            permission=permission,
            pattern=entry,
            scope="session",
            by=by,
            at_ms=now_ms,
            version=number,
        )
        for number, entry in enumerate(entries)
    )
    return OfferedGrants(Grants.of(made), signed)


def can_be_judged(call: Call) -> bool:
    """Return whether the log has the call as it was; a masked secret is not what would have run."""
    return not holds_mask((call.patterns, call.input))


def would_answer(
    ground: Ground, call: Call, request_id: str, asking: tuple[str, ...], offered: OfferedGrants | None = None
) -> bool:
    """Return whether a call would be allowed without a person: by rules and grants of now, and with `offered` ones."""
    state, project = ground.state, ground.project
    streams = (state.grants, *(() if project is None else (project.grants,)))
    streams += () if offered is None else (offered.grants,)
    standing: Sequence[StandingGrant] = Standing(streams, ground.now_ms)
    demands = demands_on(ground.policy, call)
    if demands:
        standing = _that_count(standing, demands, asking, offered)
    evaluation, _ = judge(state, ground.policy, call, request_id, standing)
    return evaluation.verdict is Verdict.ALLOW


def _that_count(
    standing: Sequence[StandingGrant],
    demands: tuple[Demand, ...],
    asking: tuple[str, ...],
    offered: OfferedGrants | None,
) -> Sequence[StandingGrant]:
    """Return the grants that meet all demands on a call; an offered one would bear the signature of its answer."""
    signed = offered.grants if offered is not None and offered.signed else {}
    unsigned = tuple(replace(one, answer_by=None) for one in demands)
    return kept(
        standing,
        lambda grant: bool(that_count((grant,), unsigned if grant.grant_id in signed else demands, asking)),
    )


class ReachCount:
    """The count of one choice, over past calls taken one by one, the newest first."""

    def __init__(self, session: str) -> None:
        self._session = session
        self._answered = self._here = self._rejected = 0
        self._examples: dict[str, PastCall] = {}

    def add(self, past: PastCall) -> None:
        """Count a past call that the choice would have answered."""
        self._answered += 1
        self._here += past.request.session == self._session
        self._rejected += past.request.is_rejected
        known = self._examples.get(past.line)
        if known is None or (past.request.is_rejected and not known.request.is_rejected):
            self._examples[past.line] = past

    def result(self) -> Reached:
        found = sorted(self._examples.values(), key=lambda past: not past.request.is_rejected)
        return Reached(
            answered=self._answered,
            here=self._here,
            rejected=self._rejected,
            examples=tuple(found[:EXAMPLES_COUNT]),
        )
