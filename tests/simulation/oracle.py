"""The outcomes that callers must have received, predicted from the logs alone with an own model of rules and grants."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple, TypeAlias

from ledger.core.events import (
    Asked,
    Cancelled,
    Claimed,
    Expired,
    Granted,
    PolicyChanged,
    Reopened,
    Replied,
    Revoked,
    SessionOpened,
    ToolFinished,
    UseTaken,
)
from ledger.core.freezes import FREEZE
from ledger.core.grants import Recorded
from ledger.core.limits import SWEEP_SECONDS
from ledger.policy import PolicySource, Verdict
from tests.simulation.actors import Told, ToldClaim
from tests.support.auditor import Auditor

SLACK_MS: Final = 12_000
"""For processes that are down, servers that are away and clocks that are wrong."""

LATEST_MS: Final = round(SWEEP_SECONDS * 1000) + SLACK_MS


class Status(NamedTuple):
    """The status of a request from a version on."""

    version: int
    outcome: str
    by: str = ""
    reply: str | None = None
    ms: int = 0
    rests_on_project: bool = False


UNKNOWN: Final = Status(0, "unknown")


class Standing(NamedTuple):
    """A grant in force: the (permission, pattern) pair that it allows, and the calls that hold a use of it.

    `holders` are (session, request) pairs; None for a grant without a limit of uses.
    """

    pair: tuple[str, str]
    holders: frozenset[tuple[str, str]] | None = None


class Allowed:
    """The grants of one stream in force at each version. One with a limit of uses allows only calls that hold one."""

    def __init__(self, records: Iterable[Recorded]) -> None:
        granted: dict[str, Standing] = {}
        self._at: list[tuple[Standing, ...]] = [()]
        for recorded in records:
            event = recorded.event
            if isinstance(event, Granted) and event.detail:
                holders: frozenset[tuple[str, str]] | None = None if event.uses is None else frozenset()
                granted[event.grant_id] = Standing((event.permission, event.detail.pattern), holders)
            elif isinstance(event, Revoked):
                granted.pop(event.grant_id, None)
            elif isinstance(event, UseTaken) and event.grant_id in granted:
                known = granted[event.grant_id]
                holder = (event.session, event.request_id)
                granted[event.grant_id] = known._replace(holders=(known.holders or frozenset()) | {holder})
            self._at.append(tuple(granted.values()))

    def allows(self, version: int, call: tuple[str, str], holder: tuple[str, str]) -> bool:
        """Return whether a grant in force at a version allows the call of this (session, request)."""
        return any(one.pair == call and (one.holders is None or holder in one.holders) for one in self._at[version])

    def between(self, first: int, last: int) -> frozenset[tuple[str, str]]:
        """Return the pairs of the grants that were in force at any version from the first to the last."""
        return frozenset(one.pair for standing in self._at[first : last + 1] for one in standing)


PolicyOf: TypeAlias = Callable[[str], PolicySource]
"""A reader of the stored rules of a digest."""


class Denied:
    """The patterns of `bash` that the rules of one session deny, at each version."""

    def __init__(self, records: Iterable[Recorded], policy_of: PolicyOf) -> None:
        self._at: list[frozenset[str]] = [frozenset()]
        for recorded in records:
            event, now = recorded.event, self._at[-1]
            if isinstance(event, SessionOpened | PolicyChanged):
                rules = [rule for layer in policy_of(event.policy_digest).layers for rule in layer.rules]
                now = frozenset(rule.pattern for rule in rules if rule.action is Verdict.DENY)
            self._at.append(now)

    def at(self, version: int, call: tuple[str, str]) -> bool:
        permission, text = call
        denied = self._at[version]
        return permission == "bash" and (text in denied or (text.startswith("rm ") and "rm *" in denied))


class Oracle:
    """Reads the log of one session, beside that of its project."""

    def __init__(
        self, session: str, records: Sequence[Recorded], project: Sequence[Recorded], policy_of: PolicyOf
    ) -> None:
        self._session = session
        self._statuses: dict[str, list[Status]] = defaultdict(lambda: [UNKNOWN])
        self._asked: dict[str, Asked] = {}
        self._own = Allowed(records)
        self._shared = Allowed(project)
        self._denied = Denied(records, policy_of)
        self._auditor = Auditor()
        self._closed_at: int | None = None
        self._answered: set[str] = set()
        """Requests whose last outcome is a person's own answer."""
        self._claims: dict[str, list[tuple[int, str, str]]] = defaultdict(list)
        for recorded in records:
            self._read(recorded)
        runs = [one.event for one in records if isinstance(one.event, ToolFinished)]
        noted = Counter(one.call_id for one in runs if one.call_id is not None)
        assert {call: count for call, count in noted.items() if count > 1} == {}, "a fact is noted once"
        self.noted = frozenset(noted)

    def _read(self, recorded: Recorded) -> None:
        event, version, ms, by = recorded.event, recorded.version, recorded.ms, recorded.actor.name
        if isinstance(event, Expired | Cancelled | Replied):
            deadline_ms = self._auditor.deadline.get(event.request_id)
            assert deadline_ms is None or ms <= deadline_ms + LATEST_MS, "a request ends by its deadline and a sweep"
        self._auditor.read([recorded])
        match event:
            case Asked():
                self._asked[event.request_id] = event
                said = self._verdict(event, version, event.project_version)
                held = event.detail is not None and any(one.decider == FREEZE for one in event.detail.opinions)
                assert event.verdict is (Verdict.ASK if held else said), "judged by what stood"
                assert not held or said is Verdict.ALLOW, "only what would be allowed is held back"
                self._stands(
                    event.request_id, Status(version, _OUTCOMES[event.verdict], by, None, ms, event.rests_on_project)
                )
            case Reopened():
                self._answered.discard(event.request_id)
                asked = self._asked[event.request_id]
                assert event.verdict is self._verdict(asked, version, event.project_version), "judged by what stood"
                if event.verdict is Verdict.ASK:
                    # It waits since it was asked first.
                    by, ms = self._statuses[event.request_id][1].by, self._statuses[event.request_id][1].ms
                self._stands(event.request_id, Status(version, _OUTCOMES[event.verdict], by, None, ms))
            case Claimed():
                self._read_claim(event, version)
            case Replied():
                (self._answered.discard if event.cause else self._answered.add)(event.request_id)
                if event.reply != "reject":
                    is_denied = self._denied.at(version - 1, _call(self._asked[event.request_id]))
                    assert (event.outcome == "denied") == is_denied, "a yes counts by the rules of now"
                self._stands(
                    event.request_id, Status(version, event.outcome, by, event.reply, ms, event.rests_on_project)
                )
            case Expired():
                self._stands(event.request_id, Status(version, "expired", by, None, ms))
            case Cancelled():
                self._stands(event.request_id, Status(version, "cancelled", by, None, ms))
            case _:
                pass
        if self._auditor.closed and self._closed_at is None:
            self._closed_at = version

    def _read_claim(self, event: Claimed, version: int) -> None:
        asked = self._asked[event.request_id]
        if event.request_id in self._answered:
            assert not self._denied.at(version - 1, _call(asked)), "claimed by the rules of now"
        else:
            verdict = self._verdict(asked, version, event.project_version)
            assert verdict is Verdict.ALLOW, "claimed by the rules and grants of now"
        self._claims[event.request_id].append((version, event.claim_id, event.runner))

    def check_claim(self, told: ToldClaim) -> None:
        """Fail when a claimer was told what the log does not say."""
        known = [one for one in self._claims[told.request_id] if one[0] <= told.until.version]
        if told.runner is not None:
            assert told.runner in [runner for _, _, runner in known], f"{told}, but {known}"
        ids = [claim_id for _, claim_id, _ in known]
        if told.runner is not None and told.claim_id in ids:
            assert ids == [told.claim_id], "one runner for each call"

    def _stands(self, request_id: str, status: Status) -> None:
        self._statuses[request_id].append(status)

    def _verdict(self, asked: Asked, version: int, project_version: int | None) -> Verdict:
        """Read runs, what a rule denies does not, and the rest is asked unless a grant allows it."""
        call = _call(asked)
        if asked.permission == "read":
            return Verdict.ALLOW
        if self._denied.at(version - 1, call):
            return Verdict.DENY
        holder = (self._session, asked.request_id)
        is_granted = self._own.allows(version - 1, call, holder) or self._shared.allows(
            project_version or 0, call, holder
        )
        return Verdict.ALLOW if is_granted else Verdict.ASK

    # --- what callers heard -----------------------------------------------------------------------------------------

    def waiting(self) -> list[str]:
        return self._auditor.waiting()

    def check(self, told: Told) -> None:
        """Fails when this result was impossible between the call and its answer."""
        held = self._held(told)
        assert any(_agrees(told, status) for status in held), f"{told} but it was {held}"
        if told.kind == "ask":
            self._check_ask(told, held)
        if told.kind == "reply" and not told.refused:
            assert told.reply == told.said, f"{told} was told that its answer counts"

    def _held(self, told: Told) -> list[Status]:
        """The statuses that the request had between call and answer."""
        if told.outcome == "closed":
            assert self._closed_at is not None
            assert self._closed_at <= told.until.version
            return [Status(self._closed_at, "closed")]
        statuses = self._statuses[told.request_id]
        before = [status for status in statuses if status.version <= told.since.version][-1]
        return [before, *(one for one in statuses if told.since.version < one.version <= told.until.version)]

    def _check_ask(self, told: Told, held: list[Status]) -> None:
        last = held[-1]
        assert told.server_ms <= max(told.called_ms, last.ms) + LATEST_MS, f"{told} was told too late: {last}"
        if told.outcome == "allowed" and last.rests_on_project:
            asked = self._asked[told.request_id]
            own = self._own.between(told.since.version, told.until.version)
            shared = self._shared.between(told.project_since.version, told.project_until.version)
            assert _call(asked) in own | shared, f"{told} by a grant that had been revoked"


_OUTCOMES: Final = {Verdict.ALLOW: "allowed", Verdict.DENY: "denied", Verdict.ASK: "pending"}


def _call(asked: Asked) -> tuple[str, str]:
    assert asked.detail
    return asked.permission, asked.detail.patterns[0]


def _agrees(told: Told, status: Status) -> bool:
    if told.outcome == "frozen":
        return told.kind == "ask" and status.outcome == "allowed"
    if told.outcome != status.outcome:
        return False
    by_agrees = told.by in (None, status.by) or told.outcome in ("pending", "closed")
    reply_agrees = told.kind == "ask" or told.by is None or told.reply == status.reply
    return by_agrees and reply_agrees and told.at_ms in (None, status.ms)


def check_all(
    told: Iterable[Told],
    noted: Iterable[tuple[str, str]],
    claims: Iterable[ToldClaim],
    oracles: dict[str, Oracle],
) -> None:
    for claim in claims:
        oracles[claim.session].check_claim(claim)
    for one in told:
        oracles[one.session].check(one)
    for session, call_id in noted:
        assert call_id in oracles[session].noted, f"{call_id} was acknowledged, and is not there"
