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
from typing import TYPE_CHECKING, Final

from ledger import Ledger
from ledger.core.errors import LedgerError, StoreError
from ledger.core.limits import FEED_LENGTH_COUNT
from ledger.core.times import DAY_MS
from ledger.stores.port import FeedItem
from projections.queries import latest_sessions
from workers.notifier.messengers import ServiceMessenger, keep_addresses_out_of_the_log
from workers.notifier.notification_states import NotificationStates
from workers.notifier.plan import NotificationState, RecipientChannel, plan
from workers.notifier.runner import Allowance, ChannelRunner
from workers.notifier.settings import NotifierSettings, read_settings
from workers.runtime.consumer import Consumer, Pause, every_append
from workers.runtime.process import Work

if TYPE_CHECKING:
    from workers.notifier.devices import DeviceChannels

log = logging.getLogger(__name__)

GROUP: Final = "notifier"

FEED_SECONDS: Final = 5.0
"""The interval at which all feeds are read, in case a wake-up was lost."""

CLAIM_IDLE_MS: Final = 30_000
"""The time without an acknowledgement after which another notifier's lines are read too: harmless if it still runs."""

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
        self._timing = settings.timing
        self._states = NotificationStates(ledger)
        self._consumer = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}"
        self._ledger = ledger
        self._settings = settings
        self._of_services = [
            ChannelRunner(
                ledger,
                settings,
                self._states,
                channel=channel,
                messenger=ServiceMessenger(ledger, settings, channel, service),
                allowance=allowance,
                holder=self._consumer,
            )
            for person, services in settings.people
            for allowance in [Allowance(ledger.store, person.name, [one.name for one in services])]
            for service in services
            for channel in [RecipientChannel(person, service.name)]
        ]
        self._devices = _device_channels(ledger, settings, self._states, self._consumer)
        self._next_sweep = 0.0
        self._has_looked_everywhere = False
        self._feeds = Consumer("notifier", ledger, self._look, retry_seconds=FEED_SECONDS, concerns=every_append)
        self._handling: set[asyncio.Task[None]] = set()

    async def run(self, stop: asyncio.Event, ready: Callable[[], None]) -> None:
        keep_addresses_out_of_the_log()
        await self._begin(stop)
        consumers = (self._feeds, *(runner.consumer for runner in self._of_services))
        working = [asyncio.create_task(one.run(stop), name="notifier") for one in consumers]
        if self._devices is not None:
            working.append(asyncio.create_task(self._devices.run(stop), name="notifier devices"))
        log.info(
            "notifier: serves %d channels by consumer group %s, consumer %s", len(self._runners), GROUP, self._consumer
        )
        ready()
        try:
            # A task that fails is a fault of ours: fail and restart rather than run without it.
            ended, _ = await asyncio.wait(working, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            tasks = (*working, *self._handling)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*(one.close() for one in self._of_services))
        with suppress(LedgerError):
            await self._store.drop_consumers(GROUP, 0, self._consumer)
        for task in ended:
            task.result()

    async def _begin(self, stop: asyncio.Event) -> None:
        """Read people's choices and devices; from the return on, changes of them are followed."""
        while not stop.is_set():
            try:
                await self._ledger.notifications.watch(self._choices_changed)
                if self._devices is not None:
                    await self._devices.begin()
                break
            except StoreError as error:
                log.warning("notifier: people's choices are not known yet, trying again: %s", error)
                with suppress(TimeoutError):
                    async with asyncio.timeout(FEED_SECONDS):
                        await stop.wait()
        try:
            await self._ledger.notifications.name_services(
                {person.name: tuple(one.name for one in services) for person, services in self._settings.people}
            )
        except LedgerError as error:
            log.warning("notifier: people cannot see their services on their page: %s", error)

    def _choices_changed(self) -> None:
        if self._devices is not None:
            self._devices.notice()
        for runner in self._runners:
            runner.look_by(0)

    @property
    def _runners(self) -> list[ChannelRunner]:
        return [*self._of_services, *(self._devices.runners if self._devices is not None else ())]

    @property
    def _all(self) -> range:
        return range(self._store.partition_count)

    # --- the feeds --------------------------------------------------------------------------------------------------

    async def _look(self, woken: list[int]) -> Pause:
        loop = asyncio.get_running_loop()
        if not self._has_looked_everywhere:
            await self._look_everywhere()
            self._has_looked_everywhere = True
        if loop.time() >= self._next_sweep:
            # Those, too, that another notifier took and never acknowledged.
            await self._read(self._all, CLAIM_IDLE_MS)
            self._next_sweep = loop.time() + FEED_SECONDS
        else:
            await self._read(woken)
        return Pause(self._next_sweep - loop.time())

    async def _read(self, partitions: Sequence[int], idle_ms: int | None = None) -> None:
        if not partitions:
            return
        taken = await self._store.read_feed(partitions, GROUP, self._consumer, FEED_LENGTH_COUNT, idle_ms)
        if taken.gaps:
            await self._look_everywhere()
        self._handle(taken.items)

    async def _look_everywhere(self) -> None:
        """Check all pending sessions and the recent ones, after a gap in the feeds."""
        since_ms = await self._store.now_ms() - DAY_MS
        recent = await latest_sessions(self._store, RECENT_SESSIONS_COUNT)
        await self._states.refresh({one.session for one in recent if one.ms > since_ms})
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

    def _concerns(self, runner: ChannelRunner, states: Collection[NotificationState]) -> bool:
        """Return whether a message is due now; remember the time of a later one."""
        choice = self._ledger.notifications.choice(runner.channel.person.name)
        found = plan(runner.channel, states, {}, self._timing, self._store.clock.now_ms(), choice=choice)
        if found.next_ms is not None:
            runner.look_by(found.next_ms)
        return bool(found.reminders or found.corrections)


def _device_channels(
    ledger: Ledger, settings: NotifierSettings, states: NotificationStates, holder: str
) -> DeviceChannels | None:
    if settings.push is None:
        return None
    from workers.notifier.devices import DeviceChannels  # noqa: PLC0415 - its packages are an extra of their own

    return DeviceChannels(ledger, settings, settings.push, states, holder)
