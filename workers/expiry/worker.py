"""The expiry worker: ends unanswered requests at their deadline. Any number may run; any may be killed.

One APScheduler interval job is both the sweep and the alarm: it is moved to the earliest deadline, and forward when a
nearer one turns up. The server's index names the sessions that are due, as a hint; each session's own stream decides
its outcome, by the same function that every command runs first. An index that was lost is made anew from the pending
views, at long intervals (`docs/decisions/0003`). So two workers at once, a late one or none at all
change the time at which an outcome is written, never the outcome (`betcode.md`, "Permission Timeout Handling").
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Final

from apscheduler.schedulers.asyncio import AsyncIOScheduler

from ledger import Ledger
from ledger.core.limits import SWEEP_SECONDS
from ledger.stores.port import WakeUp
from workers.expiry.settlement import Settler
from workers.runtime.consumer import Consumer, Pause

JOB: Final = "wake"

COMPARED_SECONDS: Final = 300.0
"""The interval at which the index of deadlines is compared with the views of pending requests, in case it was lost."""

AWAY_SECONDS: Final = 1.0
"""The pause before a retry after the server was unreachable."""


async def run(ledger: Ledger, stop: asyncio.Event, compared_seconds: float = COMPARED_SECONDS) -> None:
    """Settle due requests until `stop` is set. Ledger errors are logged and retried, never raised."""
    await ExpiryWorker(ledger, compared_seconds).run(stop)


class ExpiryWorker:
    """Settles at the scheduler's alarm, and sets the alarm by the deadlines of partitions with wake-ups."""

    def __init__(self, ledger: Ledger, compared_seconds: float = COMPARED_SECONDS) -> None:
        self._compared_seconds = compared_seconds
        self._store = ledger.store
        self._settler = Settler(ledger)
        self._consumer = Consumer(
            "expiry",
            ledger,
            self._pass,
            retry_seconds=AWAY_SECONDS,
            concerns=self._concerns,
            on_stop=self._settler.stop,
        )
        # Apart from the alarm, so that no deadline waits for it.
        self._comparison = Consumer("expiry index", ledger, self._compare, retry_seconds=AWAY_SECONDS)
        self._alarmed = True
        self._sweep_at = 0.0
        self._next_ms = 0
        """When the job is to run next, in server time."""
        self._scheduler = AsyncIOScheduler(
            timezone=UTC,
            # The default drops a job that is a second late, and with it a deadline.
            job_defaults={"misfire_grace_time": None, "coalesce": True, "max_instances": 1},
        )

    async def run(self, stop: asyncio.Event) -> None:
        self._scheduler.add_job(self._alarm, "interval", seconds=SWEEP_SECONDS, id=JOB)
        self._scheduler.start()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._consumer.run(stop))
                group.create_task(self._comparison.run(stop))
        finally:
            self._scheduler.shutdown(wait=False)
            # This only asks the loop to shut down; wait until it has.
            await asyncio.sleep(0)

    def _concerns(self, wake_up: WakeUp) -> bool:
        if wake_up.key.kind != "session":
            return False
        self._settler.woken(wake_up.key.id)
        return True

    async def _alarm(self) -> None:
        self._alarmed = True
        self._consumer.wake()

    async def _compare(self, _: list[int]) -> Pause:
        """Add to the index what it has lost, and find the nearest deadline anew."""
        if await self._settler.mend():
            await self._alarm()
        return Pause(self._compared_seconds)

    async def _pass(self, woken: list[int]) -> Pause:
        if self._alarmed:
            await self._settle_all()
            self._alarmed = False
        elif woken:
            earliest = await self._settler.earliest_ms(woken)
            if earliest is not None:
                self._next_ms = min(self._next_ms, earliest)
        self._set_job()
        # The scheduler sleeps by this machine's clock: set back by an hour, it would sleep an hour too long.
        return Pause(SWEEP_SECONDS)

    async def _settle_all(self) -> None:
        """Settle until nothing is due, then find the nearest deadline."""
        if asyncio.get_running_loop().time() >= self._sweep_at:
            self._settler.give_another_try()
            self._sweep_at = asyncio.get_running_loop().time() + SWEEP_SECONDS
        await self._settler.settle_due()
        self._next_ms = self._store.clock.now_ms() + round(SWEEP_SECONDS * 1000)
        earliest = await self._settler.earliest_ms()
        if earliest is not None:
            self._next_ms = min(self._next_ms, earliest)

    def _set_job(self) -> None:
        """By the server's clock: this machine's may be wrong, and may be corrected at any time."""
        ahead_ms = min(max(self._next_ms - self._store.clock.now_ms(), 0), round(SWEEP_SECONDS * 1000))
        self._scheduler.modify_job(JOB, next_run_time=datetime.now(UTC) + timedelta(milliseconds=ahead_ms))
