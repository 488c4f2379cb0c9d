"""The outline of a session: the spans in which requests waited, and the density of its events.

It is made of the folded state alone, so that a long session is outlined without reading its log.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from heapq import heappop, heappush
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from ledger.core.events import Outcome, Tier
from ledger.core.times import format_time, format_time_or_none
from ledger.log.fold_cache import SizedCache, cache_bytes
from ledger.session.state import Request, SessionState, Settled
from ledger.stores.port import StreamKey

WAIT_BYTES: Final = 400
MARK_BYTES: Final = 100
"""The room that a wait and an event of an outline take."""

BARS_MAX: Final = 600
LANES_MAX: Final = 16

KINDS: Final[dict[Outcome, str]] = {
    "allowed": "allowed",
    "denied": "refused",
    "rejected": "refused",
    "corrected": "refused",
    "expired": "lapsed",
    "cancelled": "lapsed",
}
"""The category of an outcome in a bar."""


class WaitBar(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A request that waited for a person, in its lane: no two in a lane overlap.

    `asked` and `ended` are versions; `ended` None means still pending, and `followed` is the request whose answer
    settled it too.
    """

    request_id: str
    asked: int
    asked_ms: int
    deadline_ms: int | None
    tier: Tier | None
    ended: int | None = None
    ended_ms: int | None = None
    outcome: Outcome | None = None
    followed: str | None = None
    lane: int = 0
    until: int | None = None
    """The last version that belongs to it: its end, or the end of the last request that its answer settled too."""


class Outline(msgspec.Struct, frozen=True):
    """All waits in order of asking, and the events as `(version, kind)`."""

    version: int
    waits: list[WaitBar]
    marks: list[tuple[int, str]]


class Outlines:
    """Cached outlines of recently viewed sessions, each for its newest version."""

    def __init__(self) -> None:
        self._known: SizedCache[Outline] = SizedCache(cache_bytes("outlines"))

    async def of(self, state: SessionState) -> Outline:
        key = StreamKey("session", state.session_id)
        known = self._known.get(key)
        if known is None or known.version != state.version:
            # A state is immutable, so a thread can read it while the loop goes on.
            known = await asyncio.to_thread(outline_of, state)
            self._known.put(key, known, len(known.waits) * WAIT_BYTES + len(known.marks) * MARK_BYTES)
        return known


def outline_of(state: SessionState) -> Outline:
    """Return the outline of a state. A lane is assigned when a request is asked and never changes afterwards."""
    waits: list[WaitBar] = []
    marks: list[tuple[int, str]] = []
    # Of a settled request nothing else is kept: most are unpacked only to be looked at here.
    for settled in state.settled.values():
        marks += _marks_of(settled)
        if settled.version > settled.request.version:
            waits.append(_wait_of(settled.request, settled))
    for request in state.pending.values():
        marks.append((request.version, "asked"))
        waits.append(_wait_of(request, None))
    tails: dict[str, int] = {}
    for one in waits:
        if one.followed is not None and one.ended is not None:
            tails[one.followed] = max(one.ended, tails.get(one.followed, 0))
    waits.sort(key=lambda one: one.asked)
    return Outline(state.version, list(_in_lanes(waits, tails)), sorted(marks))


def _wait_of(request: Request, settled: Settled | None) -> WaitBar:
    bar = WaitBar(
        request_id=request.request_id,
        asked=request.version,
        asked_ms=request.asked_ms,
        deadline_ms=request.deadline_ms,
        tier=request.tier,
    )
    if settled is None:
        return bar
    followed = None if settled.cause is None else settled.cause.request_id
    return replace(bar, ended=settled.version, ended_ms=settled.at_ms, outcome=settled.outcome, followed=followed)


def _in_lanes(asked: Iterable[WaitBar], tails: dict[str, int]) -> Iterator[WaitBar]:
    busy: list[tuple[int, int]] = []
    free: list[int] = []
    lanes_count = 0
    for one in asked:
        while busy and busy[0][0] < one.asked:
            heappush(free, heappop(busy)[1])
        if free:
            lane = heappop(free)
        else:
            lane, lanes_count = lanes_count, lanes_count + 1
        until = None if one.ended is None else max(one.ended, tails.get(one.request_id, 0))
        if until is not None:
            heappush(busy, (until, lane))
        yield replace(one, lane=lane, until=until)


def _marks_of(settled: Settled) -> Iterator[tuple[int, str]]:
    is_by_rule = settled.version == settled.request.version
    if not is_by_rule:
        yield settled.request.version, "asked"
    yield settled.version, "by_rule" if is_by_rule and settled.outcome == "allowed" else KINDS[settled.outcome]


def waits_row(outline: Outline, after: int, limit: int, lanes: int) -> list[dict[str, Any]]:
    """Return the waits, in the first lanes, that overlap the `limit` events after a version."""
    last = after + limit
    return [
        _wait_row(one)
        for one in outline.waits
        if one.lane < lanes and one.asked <= last and (one.until is None or one.until > after)
    ]


def _wait_row(wait: WaitBar) -> dict[str, Any]:
    return {
        "request_id": wait.request_id,
        "lane": wait.lane,
        "asked": wait.asked,
        "asked_at": format_time(wait.asked_ms),
        "deadline": format_time_or_none(wait.deadline_ms),
        "tier": wait.tier,
        "until": wait.until,
        "ended": wait.ended,
        "ended_at": format_time_or_none(wait.ended_ms),
        "outcome": wait.outcome,
        "followed": wait.followed,
    }


def bars_row(outline: Outline, count: int) -> list[dict[str, int]]:
    """Return the whole session in at most `count` bars of equal length, each with its counts of events by kind."""
    count = max(1, min(count, outline.version))
    bars: list[dict[str, int]] = [{} for _ in range(count)]
    for version, kind in outline.marks:
        bar = bars[(version - 1) * count // outline.version]
        bar[kind] = bar.get(kind, 0) + 1
    return bars
