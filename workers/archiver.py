"""The archiver: an APScheduler interval job that seals the sessions that may be sealed.

Any number may run, any may be killed: one at a time has the turn, and each step of sealing leaves every session in one
place, or in both alike.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import socket
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Final

import msgspec
from apscheduler.schedulers.asyncio import AsyncIOScheduler

from ledger import Ledger
from ledger.core.errors import LedgerError
from ledger.core.events import Presence
from ledger.log.archive.archive import archive_of
from ledger.log.archive.sealing import Sealing, SealRule
from ledger.stores.port import WorkPlace
from workers.runtime.process import Work
from workers.upkeep.archiving import bringing_up, to_seal

log = logging.getLogger(__name__)

TURN: Final = "archiver"
TURN_MS: Final = 120_000
"""The lease of a round, taken again after each session: a dead archiver's turn ends after so long."""


class ArchiverPace(msgspec.Struct, frozen=True, kw_only=True):
    """The interval between the beginnings of two rounds, in seconds; the first begins at once.

    `above_bytes`: a round seals only as long as a server uses more memory than that.
    """

    every_seconds: float = 3600.0
    above_bytes: int | None = None


def work_of(rule: SealRule, pace: ArchiverPace, to: str | None = None) -> Work:
    """Return the work of an archiver with a rule; `to` sets the archive first."""

    async def work(ledger: Ledger, stop: asyncio.Event) -> None:
        if to is not None:
            await archive_of(ledger.store).set_url(to)
        await Archiver(ledger, rule, pace).run(stop)

    return work


class Archiver:
    """Makes rounds over the sessions that the views say may be sealed. Errors are logged, and the next round retries."""

    def __init__(self, ledger: Ledger, rule: SealRule, pace: ArchiverPace) -> None:
        self._ledger = ledger
        self._rule = rule
        self._pace = pace
        self._holder = Presence(f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}", "archiver")
        self._stop = asyncio.Event()
        self._at_work = asyncio.Lock()
        self._scheduler = AsyncIOScheduler(
            timezone=UTC,
            # The default drops a job that is a second late; a round that takes long delays the next one.
            job_defaults={"misfire_grace_time": None, "coalesce": True, "max_instances": 1},
        )

    async def run(self, stop: asyncio.Event) -> None:
        self._stop = stop
        seconds = self._pace.every_seconds
        self._scheduler.add_job(self._round, "interval", seconds=seconds, next_run_time=datetime.now(UTC))
        self._scheduler.start()
        try:
            await stop.wait()
            self._scheduler.pause()
            # A round that is cut off would keep the turn until its lease ends; shutting down cuts it off.
            async with self._at_work:
                pass
        finally:
            self._scheduler.shutdown(wait=False)
            # This only asks the loop to shut down; wait until it has.
            await asyncio.sleep(0)

    async def _round(self) -> None:
        async with self._at_work:
            try:
                if await self._has_turn():
                    await self._seal_all()
            except LedgerError as error:
                log.warning("archiver: the round ended early, the next one goes on: %s", error)

    async def _seal_all(self) -> None:
        ledger, sealed, events = self._ledger, 0, 0
        sealing = Sealing(ledger.store, ledger.streams, archive_of(ledger.store), self._rule, bringing_up(ledger))
        # Closed at once where the round ends early: a file that is being written must not outlive the turn.
        keys = to_seal(ledger, self._rule, self._pace.above_bytes)
        async with aclosing(sealing.seal(keys)) as results:
            async for result in results:
                if result.kept is None:
                    sealed, events = sealed + 1, events + result.events
                elif result.is_damaged:
                    log.warning("archiver: session %s stays on the server: %s", result.key.id, result.kept)
                if self._stop.is_set() or not await self._has_turn():
                    break
        if sealed:
            log.info("archiver: sealed %d sessions with %d events", sealed, events)
        await ledger.store.lease(WorkPlace(TURN), self._holder, 0)

    async def _has_turn(self) -> bool:
        return await self._ledger.store.lease(WorkPlace(TURN), self._holder, TURN_MS, alone=True)
