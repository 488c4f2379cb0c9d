"""Filling a ledger up to a number of sessions, with several processes, and its views after it."""

from __future__ import annotations

import asyncio
import sys
import time
from contextlib import AsyncExitStack
from typing import Final

from bench.place import Child, Place, child
from ledger.stores.store import Store
from projections.lag import FedLag, StreamWalk, uncounted

OWN_NOTES: Final = "bench-growth"
LOOK_MS: Final = 50
TELL_SECONDS: Final = 5.0


def tell(text: str) -> None:
    """Print progress on stderr."""
    print(f"growth: {text}", file=sys.stderr, flush=True)


async def filled_count(store: Store) -> int:
    """Return how many sessions an earlier run, or an earlier size, has written."""
    return int((await store.notes(OWN_NOTES)).get("sessions", b"0"))


async def fill(place: Place, sessions: int, pending: int, jobs: int) -> None:
    """Write the sessions that are missing. Raises RuntimeError where an earlier run was interrupted meanwhile."""
    store = place.ledger.store
    first = await filled_count(store)
    if first < 0:
        raise RuntimeError("an earlier run was interrupted while it wrote sessions; begin with an empty folder")
    if first >= sessions:
        return
    await store.note(OWN_NOTES, "sessions", b"-1")
    began, progress = time.monotonic(), _Progress(sessions - first)
    async with AsyncExitStack() as stack:
        children = [
            await stack.enter_async_context(
                child("bench.growth.filling_child", place.url, pending, first + job, sessions, jobs)
            )
            for job in range(min(jobs, sessions - first))
        ]
        await asyncio.gather(*(progress.follow(one) for one in children))
    await store.note(OWN_NOTES, "sessions", str(sessions).encode())
    tell(f"{sessions - first:,} sessions written in {time.monotonic() - began:.0f} s")


class _Progress:
    """The sessions written by all processes."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._count = 0
        self._began = self._told = time.monotonic()

    async def follow(self, process: Child) -> None:
        while (line := await process.line()) != "done":
            self._count += int(line)
            now = time.monotonic()
            if now - self._told > TELL_SECONDS:
                self._told = now
                rate = self._count / (now - self._began)
                left = (self._total - self._count) / rate
                tell(f"{self._count:,} of {self._total:,} sessions, {rate:.0f} a second, {left:.0f} s left")


async def until_projected(store: Store) -> None:
    """Wait until a projector has brought all views up, and has compared every stream with them."""
    began, looks = time.monotonic(), 0
    while await StreamWalk(store, _nothing).is_due() or await uncounted(store) or await FedLag(store).all():
        await store.clock.wait_until(store.clock.now_ms() + LOOK_MS * min(20, 1 + looks))
        looks += 1
    tell(f"views up to the head after {time.monotonic() - began:.1f} s")


async def _nothing(_: object) -> None:
    """Bring up no stream: only the notes of the walk are read."""
