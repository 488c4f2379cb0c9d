"""The loop of a worker: a pass after each wake-up, at a time, and at the latest after a pause."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, NamedTuple

from ledger import Ledger
from ledger.core.errors import LedgerError, StoreError
from ledger.stores.port import WakeUp

log = logging.getLogger(__name__)

GATHER_SECONDS: Final = 0.005
"""The time for which wake-ups of partitions are collected and handled together."""

STOP_SECONDS: Final = 5.0
"""The time limit for a pass in progress when the worker is stopped."""

SUBSCRIBED_AT_ONCE_COUNT: Final = 32


class Pause(NamedTuple):
    """The bounds of the time until the next pass: seconds from now, and a server time (ms) if one is known."""

    seconds: float
    until_ms: int | None = None


Pass = Callable[[list[int]], Awaitable[Pause]]
"""A pass over the partitions with wake-ups since the last complete one."""


class Consumer:
    """Makes passes, one at a time. A wake-up during a pass leads to another one.

    A pass that raises LedgerError is made again, for the same partitions, after `retry_seconds` or the next wake-up.
    `concerns` selects the appends that wake; None: no append does. `on_stop` lets a long pass end early.
    """

    def __init__(
        self,
        name: str,
        ledger: Ledger,
        make_pass: Pass,
        *,
        retry_seconds: float,
        concerns: Callable[[WakeUp], bool] | None = None,
        on_stop: Callable[[], None] = lambda: None,
    ) -> None:
        self.stopping = False
        self._name = name
        self._ledger = ledger
        self._make_pass = make_pass
        self._retry_seconds = retry_seconds
        self._concerns = concerns
        self._on_stop = on_stop
        self._woken: set[int] = set()
        self._wake = asyncio.Event()
        self._away = False

    def wake(self, partition: int | None = None) -> None:
        """Make a pass soon: for a partition, or (None) at once."""
        if partition is not None:
            self._woken.add(partition)
        self._wake.set()

    async def run(self, stop: asyncio.Event) -> None:
        """Make passes until `stop` is set. Ledger errors are logged and retried, never raised."""
        tasks = [asyncio.create_task(work, name=self._name) for work in (self._loop(), stop.wait(), self._subscribe())]
        loop, stopped, _ = tasks
        try:
            await asyncio.wait((loop, stopped), return_when=asyncio.FIRST_COMPLETED)
            self.stopping = True
            self._on_stop()
            self._wake.set()
            _, in_progress = await asyncio.wait((loop,), timeout=STOP_SECONDS)
            if in_progress:
                log.warning("%s: stopped in a pass; another worker or the next start goes on with it", self._name)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        if not loop.cancelled():
            loop.result()

    # --- passes -----------------------------------------------------------------------------------------------------

    async def _loop(self) -> None:
        while not self.stopping:
            self._wake.clear()
            woken, self._woken = self._woken, set()
            try:
                pause = await self._make_pass(sorted(woken))
            except LedgerError as error:
                self._woken |= woken
                pause = Pause(self._retry_seconds)
                if not self._away:  # once an outage
                    log.warning("%s: failed, trying again: %s", self._name, error)
                self._away = True
            else:
                if self._away:
                    log.warning("%s: reconnected", self._name)
                self._away = False
            await self._wait(pause)

    async def _wait(self, pause: Pause) -> None:
        alarm = None if pause.until_ms is None else asyncio.create_task(self._wake_at(pause.until_ms), name=self._name)
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(max(pause.seconds, 0)):
                    await self._wake.wait()
                    if self._woken:
                        await asyncio.sleep(GATHER_SECONDS)
        finally:
            if alarm is not None:
                alarm.cancel()

    async def _wake_at(self, ms: int) -> None:
        await self._ledger.store.clock.wait_until(ms)
        self._wake.set()

    # --- wake-ups ---------------------------------------------------------------------------------------------------

    async def _subscribe(self) -> None:
        concerns, store = self._concerns, self._ledger.store
        if concerns is None:
            return

        def notified(wake_up: WakeUp) -> None:
            if concerns(wake_up):
                self.wake(wake_up.key.partition(store.partition_count))

        self._ledger.streams.on_wake_up(notified, self.wake)
        every = range(store.partition_count)
        for first in range(0, len(every), SUBSCRIBED_AT_ONCE_COUNT):
            await self._subscribe_to(every[first : first + SUBSCRIBED_AT_ONCE_COUNT])
        log.info("%s: subscribed to %d partitions", self._name, len(every))

    async def _subscribe_to(self, partitions: range) -> None:
        while True:
            try:
                await asyncio.gather(*(self._ledger.streams.subscribe(partition) for partition in partitions))
                return
            except StoreError as error:
                log.warning("%s: no wake-ups yet: %s", self._name, error)
                await asyncio.sleep(self._retry_seconds)


def every_append(_: WakeUp) -> bool:
    """Select all appends for `Consumer.concerns`."""
    return True
