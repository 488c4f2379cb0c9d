"""The notifier worker. Any number may run at once; any may be killed.

Each partition's feed names the sessions with new events, and a consumer group shares its lines among the notifiers. A
line is acknowledged when the messages for its session were sent and recorded, so a dead notifier's lines are taken
over. One worker at a time sends to one person by one service, under a turn that expires by itself. Sent messages stand
in the log: a notifier that starts continues after one that was killed, and at worst repeats messages that were sent and
not yet recorded.
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
from workers.notifier.delivery import keep_addresses_out_of_the_log
from workers.notifier.notification_state import NotificationState
from workers.notifier.notification_states import NotificationStates
from workers.notifier.plan import RecipientChannel, plan
from workers.notifier.runner import Runner
from workers.notifier.settings import NotifierSettings, read_settings
from workers.runtime.process import Work

log = logging.getLogger(__name__)

GROUP: Final = "notifier"

FEED_SECONDS: Final = 5.0
"""The interval at which all feeds are read, in case a wake-up was lost."""

CLAIM_IDLE_MS: Final = 30_000
"""The time without an acknowledgement after which another notifier's lines are read too: harmless if it still runs."""

STOP_SECONDS: Final = 5.0
"""The time limit for messages in progress when the worker is stopped."""

GATHER_SECONDS: Final = 0.005
RECENT_SESSIONS_COUNT: Final = 1000
"""The number of sessions checked when a feed was trimmed before it was read."""


def work_of(config: Path) -> Work:
    """Return the work of a notifier with this configuration. Raises InputError, SetupError."""
    settings = read_settings(config)

    async def work(ledger: Ledger, stop: asyncio.Event) -> None:
        await run(ledger, stop, settings)

    return work


async def run(
    ledger: Ledger, stop: asyncio.Event, settings: NotifierSettings, ready: Callable[[], None] = lambda: None
) -> None:
    """Notify people until `stop` is set. Errors are logged and retried; raises no ledger errors."""
    await Notifier(ledger, settings).run(stop, ready)


class Notifier:
    """Finds sessions with new events, and the recipients they concern."""

    def __init__(self, ledger: Ledger, settings: NotifierSettings) -> None:
        self._store = ledger.store
        self._streams = ledger.streams
        self._timing = settings.timing
        self._states = NotificationStates(ledger)
        self._consumer = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}"
        self._runners = [
            Runner(
                ledger,
                settings,
                self._states,
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
        log.info(
            "notifier: serves %d channels by consumer group %s, consumer %s", len(self._runners), GROUP, self._consumer
        )
        ready()
        try:
            # A task that ends by itself is a fault of ours: fail and restart rather than run without it.
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
                log.warning("notifier: reading failed, trying again: %s", error)
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
        """Check all pending sessions and the recent ones, after a gap in the feeds."""
        since_ms = await self._store.now_ms() - DAY_MS
        recent = await self._store.views.highest(RECENT, RECENT_SESSIONS_COUNT)
        await self._states.refresh({session for session, ms in recent if ms > since_ms})
        await self._states.of_all()
        for runner in self._runners:
            runner.look_by(0)

    # --- feed lines -------------------------------------------------------------------------------------------------

    def _handle(self, items: Sequence[FeedItem]) -> None:
        """Handle lines beside those in progress: a slow service delays no other."""
        if items:
            task = asyncio.create_task(self._tell(items), name="tell of what moved")
            self._handling.add(task)
            task.add_done_callback(self._handling.discard)

    async def _tell(self, items: Sequence[FeedItem]) -> None:
        sessions = {item.key.id for item in items if item.key.kind == "session"}
        try:
            states = await self._states.refresh(sessions)
            await asyncio.gather(*(runner.look() for runner in self._runners if self._concerns(runner, states)))
            await self._store.acknowledge(GROUP, items)
        except LedgerError as error:
            # Not acknowledged: the lines are delivered again.
            log.warning("notifier: feed lines not handled, trying again: %s", error)

    def _concerns(self, runner: Runner, states: Collection[NotificationState]) -> bool:
        """Return whether a message is due now; remember the time of a later one."""
        found = plan(runner.channel, states, {}, self._timing, self._store.clock.now_ms())
        if found.next_ms is not None:
            runner.look_by(found.next_ms)
        return bool(found.reminders or found.corrections)
