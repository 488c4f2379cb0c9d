"""The outline of a session: the spans in which requests waited, and the density of its events.

It is made of the folded state alone, so that a long session is outlined without reading its log.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from heapq import heappop, heappush
from typing import Any, Final

import msgspec

from ledger.core.events import Outcome
from ledger.core.times import format_time, format_time_or_none
from ledger.session.state import Request, SessionState, Settled

OUTLINES_COUNT: Final = 16
"""Sessions whose outline is cached; the least recently requested one is dropped."""

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


class WaitBar(msgspec.Struct, frozen=True):
    """A request that waited for a person, in its lane: no two in a lane overlap. `until` None means still pending."""

    lane: int
    request: Request
    settled: Settled | None
    until: int | None
    """The last version that belongs to it: its end, or the end of the last request that its answer settled too."""


class Outline(msgspec.Struct, frozen=True):
    """All waits in order of asking, and the events as `(version, kind)`."""

    version: int
    waits: list[WaitBar]
    marks: list[tuple[int, str]]


class Outlines:
    """Cached outlines of recently viewed sessions, each for its newest version."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, Outline] = OrderedDict()

    async def of(self, state: SessionState) -> Outline:
        known = self._known.get(state.session_id)
        if known is None or known.version != state.version:
            # A state is immutable, so a thread can read it while the loop goes on.
            known = await asyncio.to_thread(outline_of, state)
            self._known[state.session_id] = known
        self._known.move_to_end(state.session_id)
        while len(self._known) > OUTLINES_COUNT:
            self._known.popitem(last=False)
        return known


def outline_of(state: SessionState) -> Outline:
    """Return the outline of a state. A lane is assigned when a request is asked and never changes afterwards."""
    ended = [one for one in state.settled.values() if one.version > one.request.version]
    tails: dict[str, int] = {}
    for one in ended:
        if one.cause is not None and one.cause.request_id is not None:
            tails[one.cause.request_id] = max(one.version, tails.get(one.cause.request_id, 0))
    asked: list[tuple[Request, Settled | None]] = [(one.request, one) for one in ended]
    asked += [(request, None) for request in state.pending.values()]
    asked.sort(key=lambda one: one[0].version)
    return Outline(state.version, list(_in_lanes(asked, tails)), sorted(_marks(state)))


def _in_lanes(asked: Iterable[tuple[Request, Settled | None]], tails: dict[str, int]) -> Iterator[WaitBar]:
    busy: list[tuple[int, int]] = []
    free: list[int] = []
    lanes_count = 0
    for request, settled in asked:
        while busy and busy[0][0] < request.version:
            heappush(free, heappop(busy)[1])
        if free:
            lane = heappop(free)
        else:
            lane, lanes_count = lanes_count, lanes_count + 1
        until = None if settled is None else max(settled.version, tails.get(request.request_id, 0))
        if until is not None:
            heappush(busy, (until, lane))
        yield WaitBar(lane, request, settled, until)


def _marks(state: SessionState) -> Iterator[tuple[int, str]]:
    for request in state.pending.values():
        yield request.version, "asked"
    for settled in state.settled.values():
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
        if one.lane < lanes and one.request.version <= last and (one.until is None or one.until > after)
    ]


def _wait_row(wait: WaitBar) -> dict[str, Any]:
    request, settled = wait.request, wait.settled
    cause = None if settled is None or settled.cause is None else settled.cause.request_id
    return {
        "request_id": request.request_id,
        "lane": wait.lane,
        "asked": request.version,
        "asked_at": format_time(request.asked_ms),
        "deadline": format_time_or_none(request.deadline_ms),
        "tier": request.tier,
        "until": wait.until,
        "ended": None if settled is None else settled.version,
        "ended_at": None if settled is None else format_time(settled.at_ms),
        "outcome": None if settled is None else settled.outcome,
        "followed": cause,
    }


def bars_row(outline: Outline, count: int) -> list[dict[str, int]]:
    """Return the whole session in at most `count` bars of equal length, each with its counts of events by kind."""
    count = max(1, min(count, outline.version))
    bars: list[dict[str, int]] = [{} for _ in range(count)]
    for version, kind in outline.marks:
        bar = bars[(version - 1) * count // outline.version]
        bar[kind] = bar.get(kind, 0) + 1
    return bars
