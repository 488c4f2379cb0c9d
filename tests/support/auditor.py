"""An independent, slow reading of a session's history, written from the design and not from the fold.

It reads events one by one and fails at the first that is impossible.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from ledger.core.events import (
    Asked,
    Cancelled,
    Claimed,
    ClaimReleased,
    ClientConnected,
    DeadlineMoved,
    EndUnknown,
    Expired,
    Granted,
    Reopened,
    Replied,
    SessionClosed,
    SessionOpened,
    ToolFinished,
)
from ledger.core.grants import Recorded
from ledger.core.limits import GRANT_USES_COUNT
from ledger.policy import Verdict

Status = Literal["pending", "allowed by rules", "settled"]


class Auditor:
    """The pending requests and their deadlines, from the log alone. Times are server ms."""

    def __init__(self) -> None:
        self.status: dict[str, Status] = {}
        self.deadline: dict[str, int | None] = {}
        self.asked: dict[str, Asked | Reopened] = {}
        self.asked_ms: dict[str, int] = {}
        self.unattended: set[str] = set()
        self.allowed: set[str] = set()
        self.round: dict[str, int] = {}
        self.held: dict[str, str] = {}
        """The open claims, by request."""
        self.ran: set[str] = set()
        """Requests whose call has run or may have run: nothing claims them any more."""
        self.limits: dict[str, int] = {}
        self.takers: dict[str, set[str]] = {}
        self.closed = False
        self.version = 0
        self.ms = 0

    def read(self, records: Iterable[Recorded]) -> Auditor:
        for recorded in records:
            self._read(recorded)
        return self

    def waiting(self) -> list[str]:
        """In order of asking, a reopened request by when it was asked first."""
        return [request_id for request_id, status in self.status.items() if status == "pending"]

    def _read(self, recorded: Recorded) -> None:
        assert recorded.version == self.version + 1, "versions are contiguous"
        assert recorded.ms >= self.ms, "time never runs back"
        self.version, self.ms = recorded.version, recorded.ms
        event, ms = recorded.event, recorded.ms
        match event:
            case SessionOpened():
                assert recorded.version == 1
            case Asked():
                assert not self.closed
                assert event.request_id not in self.status, "a request is asked once"
                self._take(event.request_id, event.uses)
                self._judged(event, event.verdict, ms)
            case Reopened() | Claimed() | ClaimReleased() | EndUnknown() | ToolFinished():
                self._read_run(event, ms)
            case Replied():
                self._replied(event, ms)
            case Expired():
                self._ends(event.request_id)
                assert not self._in_time(event.request_id, ms), "no expiry before the deadline"
            case Cancelled():
                self._ends(event.request_id)
            case DeadlineMoved():
                self._moved(event, ms)
            case ClientConnected():
                assert not self.closed
                for request_id in self.unattended & set(self.waiting()):
                    self._give(request_id, "unattended", self.asked[request_id].unattended_ms, ms)
            case SessionClosed():
                assert not self.closed, "a session closes once"
                assert self.waiting() == [], "closing ends everything"
                assert not self.held, "closing ends every claim"
                self.closed = True
            case Granted():
                assert not self.closed
                self.limits.setdefault(event.grant_id, event.uses or GRANT_USES_COUNT**2)
            case _:
                pass

    def _read_run(self, event: Reopened | Claimed | ClaimReleased | EndUnknown | ToolFinished, ms: int) -> None:
        if isinstance(event, Reopened):
            self._reopened(event, ms)
        elif isinstance(event, Claimed):
            self._claimed(event)
        else:
            self._claim_ended(event)

    def _reopened(self, event: Reopened, ms: int) -> None:
        assert event.request_id in self.allowed, "only an allow is reopened"
        assert event.request_id not in self.held, "what may be running is not reopened"
        assert event.verdict is not Verdict.ALLOW
        assert event.cause is not None
        if event.verdict is Verdict.ASK:
            assert event.round == self.round.get(event.request_id, 1) + 1, "each reopening has a round of its own"
            self.round[event.request_id] = event.round
        self.allowed.discard(event.request_id)
        self._judged(event, event.verdict, ms)

    def _claimed(self, event: Claimed) -> None:
        assert not self.closed
        assert event.request_id in self.allowed, "only an allowed call is claimed"
        assert event.request_id not in self.held, "one claim at a time"
        assert event.request_id not in self.ran, "no second run"
        assert event.round == self.round.get(event.request_id, 1)
        self.held[event.request_id] = event.claim_id

    def _claim_ended(self, event: ClaimReleased | EndUnknown | ToolFinished) -> None:
        if event.request_id is None or event.claim_id is None:
            return
        if isinstance(event, ToolFinished):
            if self.held.get(event.request_id) == event.claim_id:
                del self.held[event.request_id]
        else:
            assert self.held.pop(event.request_id) == event.claim_id, "only an open claim ends"
        if not isinstance(event, ClaimReleased):
            self.ran.add(event.request_id)

    def _replied(self, event: Replied, ms: int) -> None:
        self._take(event.request_id, event.uses)
        self._ends(event.request_id)
        assert event.outcome != "allowed" or self._in_time(event.request_id, ms), "no allow after the deadline"
        assert (event.outcome in ("allowed", "denied")) == (event.reply != "reject")
        if event.outcome == "allowed":
            self.allowed.add(event.request_id)
        if event.outcome == "denied":
            assert event.detail is not None
            assert event.detail.evaluation is not None
            assert event.detail.evaluation.verdict is Verdict.DENY, "what no rule denies is not denied"
            assert not event.rests_on_project
        if event.rests_on_project:
            assert event.cause is not None, "what a person answered rests on no grant"
            self.status[event.request_id] = "allowed by rules"

    def _take(self, request_id: str, grant_ids: Iterable[str]) -> None:
        for grant_id in grant_ids:
            takers = self.takers.setdefault(grant_id, set())
            takers.add(request_id)
            assert len(takers) <= self.limits.get(grant_id, len(takers)), "no more calls than uses"

    def _judged(self, event: Asked | Reopened, verdict: Verdict, ms: int) -> None:
        request_id = event.request_id
        self.asked[request_id], self.asked_ms[request_id] = event, ms
        if verdict is Verdict.ASK:
            assert event.tier is not None
            self.status[request_id] = "pending"
            self._give(request_id, event.tier, event.duration_ms, ms)
        else:
            self.status[request_id] = "allowed by rules" if verdict is Verdict.ALLOW else "settled"
            if verdict is Verdict.ALLOW:
                self.allowed.add(request_id)

    def _give(self, request_id: str, tier: str, duration_ms: int | None, ms: int) -> None:
        deadline = None if duration_ms is None else ms + duration_ms
        # A request that is reopened before people begins anew.
        self.unattended.discard(request_id)
        if tier == "unattended":
            self.unattended.add(request_id)
            cap_ms = self.asked[request_id].cap_ms
            if deadline is not None and cap_ms is not None:
                deadline = min(deadline, self.asked_ms[request_id] + cap_ms)
        self.deadline[request_id] = deadline

    def _moved(self, event: DeadlineMoved, ms: int) -> None:
        assert self.status[event.request_id] == "pending"
        assert event.request_id not in self.unattended, "a deadline moves once"
        if event.reason is None:
            self._give(event.request_id, "unattended", event.duration_ms, ms)
        else:
            self._extend(event, ms)

    def _extend(self, event: DeadlineMoved, ms: int) -> None:
        """Move an attended deadline: later, never twice by itself, and within the bounds of its request."""
        request_id, asked = event.request_id, self.asked[event.request_id]
        was, asked_ms = self.deadline[request_id], self.asked_ms[event.request_id]
        assert event.tier == "attended"
        assert was is not None
        assert ms < was, "what has expired is not extended"
        assert event.duration_ms is not None
        bounds = [ms + event.duration_ms, asked_ms + 7 * 86_400_000]
        bounds.append(was + 300_000 if event.reason == "by_hand" else asked_ms + 300_000)
        bounds += [asked_ms + one for one in (asked.cap_ms, getattr(asked, "waits_ms", None)) if one is not None]
        assert min(bounds) > was, "an extension gives time"
        self.deadline[request_id] = min(bounds)

    def _ends(self, request_id: str) -> None:
        assert self.status.get(request_id) == "pending", "a request ends once"
        self.status[request_id] = "settled"

    def _in_time(self, request_id: str, ms: int) -> bool:
        deadline = self.deadline[request_id]
        return deadline is None or ms < deadline
