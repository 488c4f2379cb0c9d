"""The log after a soak, read event by event: how each request ended, what is open, and what a redaction left."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Final

from bench.soak.day import word_of
from bench.soak.telling import Asked as Redacted
from bench.soak.telling import Heard, Request
from ledger import Ledger
from ledger.core.codec import NewerEvent, decode
from ledger.core.events import (
    Asked,
    Cancelled,
    Claimed,
    ClaimReleased,
    EndUnknown,
    Event,
    Expired,
    Reopened,
    Replied,
    ToolFinished,
)
from ledger.log.tail import read_events, read_pages
from ledger.policy import Verdict
from ledger.stores.port import StreamKey
from tests.support.store_calls import seals

NAMED_COUNT: Final = 5
"""Examples of a kind of finding that are named."""


class Audit:
    """The ends of all requests of the sessions read. One request has several outcomes only if it was reopened."""

    def __init__(self) -> None:
        self.sessions: set[str] = set()
        self.sealed_count = 0
        self.events_count = 0
        self.outcomes: dict[Request, set[str]] = defaultdict(set)
        self.how: Counter[str] = Counter()
        self.open: set[Request] = set()
        self.claimed: dict[Request, str] = {}
        self.ended_twice: set[Request] = set()

    async def read(self, ledger: Ledger) -> None:
        async for session in ledger.sessions():
            self.sessions.add(session)
            self.sealed_count += (await seals(ledger.store, [StreamKey("session", session)])) != [None]
            async for recorded in read_events(ledger.store, StreamKey("session", session)):
                self.events_count += 1
                self._read(session, recorded.event)

    def _read(self, session: str, event: Event | NewerEvent) -> None:
        match event:
            case Asked() | Reopened():
                self._judged((session, event.request_id), event.verdict)
            case Replied():
                self._ends((session, event.request_id), event.outcome)
            case Expired():
                self._ends((session, event.request_id), "expired")
            case Cancelled():
                self._ends((session, event.request_id), "cancelled")
            case Claimed():
                self.claimed[session, event.request_id] = event.claim_id
            case ToolFinished() if event.request_id is not None and event.claim_id is not None:
                self.claimed.pop((session, event.request_id), None)
            case ClaimReleased() | EndUnknown():
                self.claimed.pop((session, event.request_id), None)
                self.how[event.cause if isinstance(event, EndUnknown) else "claim released"] += 1
            case _:
                pass

    def _judged(self, request: Request, verdict: Verdict) -> None:
        if verdict is Verdict.ASK:
            self.open.add(request)
        else:
            self._end(request, "allowed" if verdict is Verdict.ALLOW else "denied")

    def _ends(self, request: Request, outcome: str) -> None:
        if request not in self.open:
            self.ended_twice.add(request)
        self.open.discard(request)
        self._end(request, outcome)

    def _end(self, request: Request, outcome: str) -> None:
        self.outcomes[request].add(outcome)
        self.how[outcome] += 1

    def findings(self, heard: Heard) -> list[str]:
        """Return what is wrong, in words; empty if every request ended once, as everybody was told."""
        told_otherwise = {
            request for request, outcomes in heard.told.items() if not outcomes <= self.outcomes.get(request, set())
        }
        return [
            *_named("requests without an end", self.open),
            *_named("claims without an end", self.claimed),
            *_named("requests that ended twice", self.ended_twice),
            *_named("requests whose asker or approver was told what the log does not say", told_otherwise),
        ]


def _named(what: str, requests: Iterable[Request]) -> list[str]:
    some = sorted(requests)
    examples = ", ".join(f"{session}/{request}" for session, request in some[:NAMED_COUNT])
    return [f"{len(some)} {what}: {examples}"] if some else []


async def still_readable(ledger: Ledger, redacted: Iterable[Redacted]) -> list[str]:
    """Return the redacted requests whose command is still in the entries of their session before the redaction."""
    left = [(one.session, one.request_id) for one in redacted if await _holds_command(ledger, one)]
    return _named("redacted requests that can still be read", left)


async def _holds_command(ledger: Ledger, one: Redacted) -> bool:
    """Return whether the command is in the log; a run that ends after the redaction may record it again."""
    word = word_of(one.request_id).encode()
    async for page in read_pages(ledger.store, StreamKey("session", one.session)):
        for entry in page:
            if one.version in getattr(decode(entry.payload, entry.content).event, "versions", ()):
                return False
            if word in entry.payload or word in (entry.content or b""):
                return True
    return False
