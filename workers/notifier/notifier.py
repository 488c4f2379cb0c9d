"""The notifier worker. Any number may run at once; any may be killed.

Each partition's feed says which sessions moved, and a consumer group shares its lines among the notifiers; a line is
acknowledged when what had to be said of its session was said and recorded, so a dead notifier's lines are taken over.
What is said to one person by one service is said by one worker at a time, under a turn that ends by itself. Who was
told what stands in the log: a notifier that starts goes on where the one before was killed, and at worst says once
more what was said and not yet recorded.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import socket
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from ledger import Ledger
from ledger.core.durations import DAY_MS
from ledger.core.errors import LedgerError, StoreError
from ledger.core.limits import FEED_LENGTH_COUNT
from ledger.stores.port import FeedItem, WakeUp
from projections.sessions import RECENT
from workers.notifier.allowance import Allowance
from workers.notifier.delivering import keep_addresses_out_of_the_log
from workers.notifier.notification_state import NotificationState
from workers.notifier.notification_states import NotificationStates
from workers.notifier.planning import RecipientChannel, plan
from workers.notifier.runner import Runner
from workers.notifier.settings import NotifierSettings, read_settings
from workers.runtime.serving import Work

log = logging.getLogger(__name__)

GROUP: Final = "notifier"

FEED_SECONDS: Final = 5.0
"""How often all feeds are read, in case a wake-up was lost."""

CLAIM_IDLE_MS: Final = 30_000
"""After so long without an acknowledgement another notifier's lines are looked at too: no harm if it still works."""

STOP_SECONDS: Final = 5.0
"""How long what is being said may take to be said and recorded when the worker is stopped."""

GATHER_SECONDS: Final = 0.005
RECENT_SESSIONS_COUNT: Final = 1000
"""Sessions that are looked at where a feed was trimmed before it was read."""


def work_of(config: Path) -> Work:
    """What a notifier with this configuration does. Raises InputError, SetupError."""
    settings = read_settings(config)

    async def work(ledger: Ledger, stop: asyncio.Event) -> None:
        await run(ledger, stop, settings)

    return work


async def run(
    ledger: Ledger, stop: asyncio.Event, settings: NotifierSettings, ready: Callable[[], None] = lambda: None
) -> None:
    """Tell people until `stop` is set. What fails is logged and tried again; raises nothing of the ledger's."""
    await Notifier(ledger, settings).run(stop, ready)


class Notifier:
    """Which sessions moved, and whom that concerns."""

    def __init__(self, ledger: Ledger, settings: NotifierSettings) -> None:
        self._store = ledger.store
        self._streams = ledger.streams
        self._timing = settings.timing
        self._books = NotificationStates(ledger)
        self._consumer = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}"
        self._runners = [
            Runner(
                ledger,
                settings,
                self._books,
                channel=RecipientChannel(person, service.name),
                service=service,
                allowance=allowance,
                holder=self._consumer,
            )
            for person, services in settings.people
            for allowance in [Allowance(ledger.store, person.name, [one.name for one in services])]
            for service in services
        ]
        self._rung: set[int] = set()
        self._ring = asyncio.Event()
        self._handling: set[asyncio.Task[None]] = set()

    async def run(self, stop: asyncio.Event, ready: Callable[[], None]) -> None:
        keep_addresses_out_of_the_log()
        self._streams.on_wake_up(self._woken, self._rang)
        telling = [asyncio.create_task(one.run(), name="tell people") for one in self._runners]
        looking = asyncio.create_task(self._look(), name="look what moved")
        subscribing = asyncio.create_task(self._subscribe(), name="notifier subscribe")
        stopping = asyncio.create_task(stop.wait(), name="notifier stop")
        log.info("notifier: tells %d by consumer group %s, consumer %s", len(self._runners), GROUP, self._consumer)
        ready()
        try:
            # One that ends by itself is a fault of ours: better seen, and started again, than half at work.
            ended, _ = await asyncio.wait((stopping, looking, *telling), return_when=asyncio.FIRST_COMPLETED)
            for runner in self._runners:
                runner.stop()
            await asyncio.wait(telling, timeout=STOP_SECONDS)
        finally:
            tasks = (stopping, looking, subscribing, *telling, *self._handling)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*(one.close() for one in self._runners))
        with suppress(LedgerError):
            await self._store.admin.leave_group(self._all, GROUP, self._consumer)
        for task in ended:
            task.result()

    @property
    def _all(self) -> range:
        return range(self._store.partition_count)

    async def _subscribe(self) -> None:
        while True:
            try:
                await asyncio.gather(*(self._store.subscribe(partition) for partition in self._all))
                return
            except StoreError as error:
                log.warning("notifier: no wake-ups yet: %s", error)
                await asyncio.sleep(FEED_SECONDS)

    def _woken(self, wake_up: WakeUp) -> None:
        self._rang(self._store.partition_of(wake_up.key))

    def _rang(self, partition: int) -> None:
        self._rung.add(partition)
        self._ring.set()

    # --- the feeds --------------------------------------------------------------------------------------------------

    async def _look(self) -> None:
        loop = asyncio.get_running_loop()
        next_sweep, began = loop.time(), False
        while True:
            try:
                if not began:
                    await self._look_everywhere()
                    began = True
                rung, self._rung = sorted(self._rung), set()
                if loop.time() >= next_sweep:
                    self._handle(
                        await self._store.claim_feed(self._all, GROUP, self._consumer, CLAIM_IDLE_MS, FEED_LENGTH_COUNT)
                    )
                    rung, next_sweep = list(self._all), loop.time() + FEED_SECONDS
                await self._read(rung)
            except StoreError as error:
                log.warning("notifier: cannot look, trying again: %s", error)
                next_sweep = loop.time() + FEED_SECONDS
            with suppress(TimeoutError):
                async with asyncio.timeout(max(next_sweep - loop.time(), 0)):
                    await self._ring.wait()
                    self._ring.clear()
                    await asyncio.sleep(GATHER_SECONDS)

    async def _read(self, partitions: Sequence[int]) -> None:
        if not partitions:
            return
        gaps, items = await asyncio.gather(
            self._store.admin.gaps(partitions, GROUP),
            self._store.read_feed(partitions, GROUP, self._consumer, FEED_LENGTH_COUNT),
        )
        if gaps:
            await self._look_everywhere()
        self._handle(items)

    async def _look_everywhere(self) -> None:
        """Where the feeds do not tell: all that waits, and what moved lately."""
        since_ms = await self._store.now_ms() - DAY_MS
        recent = await self._store.views.highest(RECENT, RECENT_SESSIONS_COUNT)
        await self._books.refresh({session for session, ms in recent if ms > since_ms})
        await self._books.of_all()
        for runner in self._runners:
            runner.look_by(0)

    # --- what they say ----------------------------------------------------------------------------------------------

    def _handle(self, items: Sequence[FeedItem]) -> None:
        """Beside whatever is under way: what one service is slow to take holds up no other."""
        if items:
            task = asyncio.create_task(self._tell(items), name="tell of what moved")
            self._handling.add(task)
            task.add_done_callback(self._handling.discard)

    async def _tell(self, items: Sequence[FeedItem]) -> None:
        sessions = {item.key.id for item in items if item.key.kind == "session"}
        try:
            books = await self._books.refresh(sessions)
            await asyncio.gather(*(runner.look() for runner in self._runners if self._concerns(runner, books)))
            await self._store.acknowledge(GROUP, items)
        except LedgerError as error:
            # Not acknowledged: the lines come again.
            log.warning("notifier: looks again later: %s", error)

    def _concerns(self, runner: Runner, books: Collection[NotificationState]) -> bool:
        """Whether something is to be said now; what is to be said later is kept in mind."""
        found = plan(runner.channel, books, {}, self._timing, self._store.clock.now_ms())
        if found.next_ms is not None:
            runner.look_by(found.next_ms)
        return bool(found.reminders or found.corrections)
