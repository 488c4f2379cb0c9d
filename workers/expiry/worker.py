"""The expiry worker: ends unanswered requests at their deadline. Any number may run; any may be killed.

One APScheduler interval job is both the sweep and the alarm: it is moved to the earliest deadline, and forward when a
nearer one turns up. The server's index names the sessions that are due, as a hint; each session's own stream decides
its outcome, by the same function that every command runs first. So two workers at once, a late one or none at all
change the time at which an outcome is written, never the outcome (`betcode.md`, "Permission Timeout Handling").
"""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime, timedelta
from typing import Final

from apscheduler.schedulers.asyncio import AsyncIOScheduler

from ledger import Ledger
from ledger.core.errors import LedgerError
from ledger.core.limits import SWEEP_SECONDS
from ledger.stores.port import WakeUp
from workers.expiry.settlement import Settler

log = logging.getLogger(__name__)

JOB: Final = "wake"

GATHER_SECONDS: Final = 0.005
"""The time for which wake-ups are collected and handled together."""

AWAY_SECONDS: Final = 1.0
"""The pause before a retry after the server was unreachable."""

STOP_SECONDS: Final = 5.0
"""The time limit for sessions in progress when the worker is stopped."""


async def run(ledger: Ledger, stop: asyncio.Event) -> None:
    """Settle due requests until `stop` is set. Ledger errors are logged and retried, never raised."""
    await ExpiryWorker(ledger).run(stop)


class ExpiryWorker:
    """Schedules the next run (the scheduler's job) and collects the partitions with wake-ups."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._store = ledger.store
        self._settler = Settler(ledger)
        self._rung: set[int] = set()
        self._ring = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._away = False
        self._sweep_at = 0.0
        self._next_ms = 0
        """When the job is to run next, in server time."""
        self._scheduler = AsyncIOScheduler(
            timezone=UTC,
            # The default drops a job that is a second late, and with it a deadline.
            job_defaults={"misfire_grace_time": None, "coalesce": True, "max_instances": 1},
        )

    async def run(self, stop: asyncio.Event) -> None:
        self._ledger.streams.on_wake_up(self._woken, self._rang)
        self._scheduler.add_job(self._wake, "interval", seconds=SWEEP_SECONDS, id=JOB, next_run_time=datetime.now(UTC))
        self._scheduler.start()
        looking = asyncio.create_task(self._look_where_it_rang(), name="expiry look")
        subscribing = asyncio.create_task(self._subscribe(), name="expiry subscribe")
        try:
            await stop.wait()
        finally:
            for task in (looking, subscribing):
                task.cancel()
            await asyncio.gather(looking, subscribing, return_exceptions=True)
            await self._stop()

    async def _stop(self) -> None:
        self._scheduler.pause()
        self._settler.stop()
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await self._idle.wait()
        except TimeoutError:
            log.warning(
                "stopped before all due sessions were settled; another worker or the next start settles the rest"
            )
        self._scheduler.shutdown(wait=False)
        # This only asks the loop to shut down; wait until it has.
        await asyncio.sleep(0)

    async def _subscribe(self) -> None:
        await asyncio.gather(*(self._store.subscribe(partition) for partition in range(self._store.partition_count)))
        log.info("expiry: subscribed to %d partitions", self._store.partition_count)

    # --- the job ----------------------------------------------------------------------------------------------------

    async def _wake(self) -> None:
        """Settle until nothing is due, then set the next wake: a run that falls due meanwhile is never started."""
        self._idle.clear()
        # Stands if this run fails for any reason.
        self._next_ms = self._store.clock.now_ms() + round(AWAY_SECONDS * 1000)
        try:
            await self._settle_all()
        except LedgerError as error:
            self._tell_away(error)
        finally:
            self._idle.set()
            self._set_job()

    async def _settle_all(self) -> None:
        if asyncio.get_running_loop().time() >= self._sweep_at:
            self._settler.give_another_try()
            self._sweep_at = asyncio.get_running_loop().time() + SWEEP_SECONDS
        await self._settler.settle_due()
        # From here on a wake-up for a nearer deadline counts, and is not overwritten below.
        self._next_ms = self._store.clock.now_ms() + round(SWEEP_SECONDS * 1000)
        earliest = await self._settler.earliest_ms()
        if earliest is not None:
            self._next_ms = min(self._next_ms, earliest)
        self._tell_back()

    def _set_job(self) -> None:
        """By the server's clock: this machine's may be wrong, and may be corrected at any time."""
        if not self._scheduler.running:
            return
        ahead_ms = min(max(self._next_ms - self._store.clock.now_ms(), 0), round(SWEEP_SECONDS * 1000))
        self._scheduler.modify_job(JOB, next_run_time=datetime.now(UTC) + timedelta(milliseconds=ahead_ms))

    # --- nearer deadlines -------------------------------------------------------------------------------------------

    def _woken(self, wake_up: WakeUp) -> None:
        if wake_up.key.kind == "session":
            self._settler.woken(wake_up.key.id)
            self._rang(self._store.partition_of(wake_up.key))

    def _rang(self, partition: int) -> None:
        self._rung.add(partition)
        self._ring.set()

    async def _look_where_it_rang(self) -> None:
        while True:
            try:
                async with asyncio.timeout(SWEEP_SECONDS):
                    await self._ring.wait()
            except TimeoutError:
                # The scheduler sleeps by this machine's clock: set back by an hour, it would sleep an hour too long.
                self._set_job_unless_busy()
                continue
            await asyncio.sleep(GATHER_SECONDS)
            # Most wake-ups during settling are its own writes; and afterwards it reads all partitions anyway.
            await self._idle.wait()
            self._ring.clear()
            rung, self._rung = sorted(self._rung), set()
            try:
                earliest = await self._settler.earliest_ms(rung)
            except LedgerError as error:
                self._tell_away(error)
                continue
            if earliest is not None and earliest < self._next_ms:
                self._next_ms = earliest
                self._set_job_unless_busy()

    def _set_job_unless_busy(self) -> None:
        if self._idle.is_set():
            self._set_job()

    # --- logging ----------------------------------------------------------------------------------------------------

    def _tell_away(self, error: LedgerError) -> None:
        if not self._away:
            self._away = True
            log.warning("expiry: failed, trying again: %s", error)

    def _tell_back(self) -> None:
        if self._away:
            self._away = False
            log.warning("expiry: reconnected")
