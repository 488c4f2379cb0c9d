"""The memory of the latest events, as it is counted and as it is."""

from __future__ import annotations

import gc
import tracemalloc
from typing import Any

import pytest

from ledger import Ledger
from ledger.log.fold_room import room_of
from ledger.log.tail import read_pages
from ledger.stores.port import Entry, StreamKey
from ledger.testing import TestClock
from tests.support.servers import RealServer
from workers.gateway.descriptions import Descriptions
from workers.gateway.events.follower import Follower
from workers.gateway.events.ring import OVERHEAD_BYTES, Item, Ring

KEY = StreamKey("session", "ses_1")
REQUESTS_COUNT = 40
TINY = 200
"""Number of values that an adversary adds to each input."""


async def entries_of(ledger: Ledger, more: dict[str, Any]) -> list[Entry]:
    """The log of a session in which many requests with `more` in their inputs were asked and answered."""
    session = await ledger.session(KEY.id, project="shop")
    for number in range(REQUESTS_COUNT):
        command = f"git push origin feature-{number} && make test"
        await session.submit_tool("Bash", {"command": command, **more}, request_id=f"per_{number:026}")
        await session.reply(f"per_{number:026}", "once", actor="ann")
    return [entry async for page in read_pages(ledger.store, KEY) for entry in page]


def filled(entries: list[Entry], ring: Ring) -> None:
    follower = Follower(KEY)
    for entry in entries:
        for frame in follower.take(entry):
            ring.push(Item(frame, f"0123456789abcdef-{ring.end}"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "more",
    [{"description": "Push"}, {"x": [[]] * TINY}, {"x": [1.5] * TINY}, {"x": {str(one): one for one in range(TINY)}}],
    ids=["ordinary inputs", "many lists", "many numbers", "many keys"],
)
async def test_a_ring_takes_no_more_memory_than_it_counts(
    server: RealServer, clock: TestClock, monkeypatch: pytest.MonkeyPatch, more: dict[str, Any]
) -> None:
    # What this process keeps of descriptions is counted there.
    nothing_kept = Descriptions(0)
    monkeypatch.setattr("workers.gateway.descriptions._of_this_process", lambda: nothing_kept)
    async with Ledger.connect(server.url, clock=clock) as ledger:
        entries = await entries_of(ledger, more)
    filled(entries, Ring(room_of("events")))  # descriptions and tables are made by then, and stay
    ring = Ring(room_of("events"))
    tracemalloc.start()
    try:
        filled(entries, ring)
        gc.collect()
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert ring.end > 2 * REQUESTS_COUNT
    assert 0.5 * ring.bytes < taken <= 1.1 * ring.bytes


def test_an_event_larger_than_the_ring_stays_until_the_next_one() -> None:
    ring = Ring(OVERHEAD_BYTES - 1)
    ring.push(Item(None, "1"))
    assert ring.since(0, 10) is not None
    ring.push(Item(None, "2"))
    assert ring.since(0, 10) is None
    assert [item.place for item in ring.since(1, 10) or ()] == ["2"]
