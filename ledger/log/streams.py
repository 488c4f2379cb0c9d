"""The open streams of a process, and their one subscriber to wake-ups."""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections.abc import Callable
from contextlib import suppress
from math import inf
from typing import Any, Final
from weakref import WeakKeyDictionary, WeakValueDictionary

from ledger.access.freeze import FREEZE_ID, HOLDS_ID, HoldState
from ledger.access.notifications import NOTIFICATIONS_ID, NotificationsState
from ledger.access.passkeys import PASSKEYS_ID, PasskeysState
from ledger.access.state import ACCESS_ID, AccessState
from ledger.core.errors import LedgerError, StoreError
from ledger.core.limits import SWEEP_SECONDS
from ledger.log.fold_cache import SizedCache, cache_bytes, fold_bytes
from ledger.log.folds import (
    ProjectFold,
    RulesFold,
    SessionFold,
    access_folds,
)
from ledger.log.freezes import Freezes
from ledger.log.plans import SETTLE
from ledger.log.rulesets import Rulesets
from ledger.log.stream import Stream, Tallies
from ledger.masks.masking import Masks
from ledger.policy.stored_rules import RulesState
from ledger.project import ProjectState
from ledger.session.state import SessionState
from ledger.stores.port import StreamKey, WakeUp
from ledger.stores.store import Store

_DROPPED_MIN_COUNT: Final = 64
"""So many dropped alarms are kept before they are swept out, however few the others are."""


class Alarm:
    """One time (server ms) of one stream."""

    __slots__ = ("at_ms", "is_dropped", "key")

    def __init__(self, at_ms: int, key: StreamKey) -> None:
        self.at_ms = at_ms
        self.key = key
        self.is_dropped = False


class Alarms:
    """Alarms in order of their times, and of their setting where these are the same."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Alarm]] = []
        self._set_count = 0
        self._dropped_count = 0

    def __len__(self) -> int:
        return len(self._heap) - self._dropped_count

    def add(self, at_ms: int, key: StreamKey) -> Alarm:
        alarm = Alarm(at_ms, key)
        self._set_count += 1
        heapq.heappush(self._heap, (at_ms, self._set_count, alarm))
        return alarm

    def nearest(self) -> Alarm | None:
        """Return the next alarm, which stays until it is dropped."""
        while self._heap and self._heap[0][2].is_dropped:
            heapq.heappop(self._heap)
            self._dropped_count -= 1
        return self._heap[0][2] if self._heap else None

    def drop(self, alarm: Alarm) -> None:
        """Forget an alarm; one that was dropped before is no problem."""
        if alarm.is_dropped:
            return
        alarm.is_dropped = True
        self._dropped_count += 1
        if self._dropped_count > max(_DROPPED_MIN_COUNT, len(self._heap) // 2):
            self._heap = [one for one in self._heap if not one[2].is_dropped]
            heapq.heapify(self._heap)
            self._dropped_count = 0


log = logging.getLogger(__name__)

SETTLE_AGAIN_MS = 1000

MEASURED_EVERY_VERSIONS = 32
"""Versions of a cached stream after which its room is estimated anew."""

WakeUpObserver = Callable[[WakeUp], None]


class Streams:
    """Streams by key. Unreferenced ones are dropped, except the most recently used, within the room for folds."""

    def __init__(self, store: Store, masks: Masks | None = None) -> None:
        self._store = store
        self.clock = store.clock
        self.masks = masks
        self.tallies = Tallies()
        self._held: WeakValueDictionary[StreamKey, Stream[Any]] = WeakValueDictionary()
        self._recent: SizedCache[Stream[Any]] = SizedCache(cache_bytes("streams"))
        self._measured: dict[StreamKey, int] = {}
        """The version at which the room of each recent stream was estimated."""
        self._watched: WeakKeyDictionary[Stream[Any], None] = WeakKeyDictionary()
        """In order of subscription; a set's order is that of addresses, and a simulated run would differ by process."""
        self._observers: list[WakeUpObserver] = []
        self._gap_observers: list[Callable[[int], None]] = []
        self._access_folds = access_folds(masks)
        freeze = Stream(store, StreamKey("access", FREEZE_ID), self._access_folds[FREEZE_ID], self.tallies)
        self._held[freeze.key] = freeze
        self.freezes = Freezes(store, freeze, self.watch)
        self.session_fold = SessionFold(store, self.freezes, masks)
        self._project_fold = ProjectFold(self.freezes, masks)
        self._rules_fold = RulesFold()
        self.rulesets = Rulesets(self.rules)
        self.alarms = Alarms()
        self._alarm_set = asyncio.Event()
        self._rings_at_ms = inf
        """The time (server ms) until which nobody looks at the alarms, unless an earlier one is set."""
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        self._tasks = [
            asyncio.create_task(self._sweep(), name="ledger sweep"),
            asyncio.create_task(self._ring_alarms(), name="ledger alarms"),
        ]

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    def session(self, session_id: str) -> Stream[SessionState]:
        return self._get(StreamKey("session", session_id), self.session_fold)

    def project(self, project_id: str) -> Stream[ProjectState]:
        return self._get(StreamKey("project", project_id), self._project_fold)

    def access(self) -> Stream[AccessState]:
        """Return the stream of access tokens."""
        return self._get(StreamKey("access", ACCESS_ID), self._access_folds[ACCESS_ID])

    def passkeys(self) -> Stream[PasskeysState]:
        """Return the stream of passkeys."""
        return self._get(StreamKey("access", PASSKEYS_ID), self._access_folds[PASSKEYS_ID])

    def holds(self) -> Stream[HoldState]:
        """Return the stream of legal holds."""
        return self._get(StreamKey("access", HOLDS_ID), self._access_folds[HOLDS_ID])

    def notifications(self) -> Stream[NotificationsState]:
        """Return the stream of people's devices and of their choices about notifications."""
        return self._get(StreamKey("access", NOTIFICATIONS_ID), self._access_folds[NOTIFICATIONS_ID])

    def rules(self, policy_digest: str) -> Stream[RulesState]:
        """Return the stream of the rules with a digest."""
        return self._get(StreamKey("policy", policy_digest), self._rules_fold)

    def _get(self, key: StreamKey, fold: Any) -> Stream[Any]:
        stream = self._held.get(key)
        if stream is None:
            stream = self._held[key] = Stream(self._store, key, fold, self.tallies, self.freezes.learn)
        version = stream.position.version
        is_known = self._recent.get(key) is stream and (self._measured[key] > 0 or version == 0)
        if not is_known or version - self._measured[key] not in range(MEASURED_EVERY_VERSIONS):
            self._measured[key] = version
            for dropped in self._recent.put(key, stream, fold_bytes(stream.state)):
                del self._measured[dropped]
        return stream

    # --- wake-ups ---------------------------------------------------------------------------------------------------

    async def watch(self, stream: Stream[Any]) -> None:
        """Subscribe to this stream: every later append reaches its fold, by wake-up or at the latest by sweep.

        Subscribes, waits for the confirmation, then reads: the other order would lose appends in between.
        """
        if stream in self._watched:
            return
        await self.subscribe(stream.key.partition(self._store.partition_count))
        await stream.refresh()
        self._watched[stream] = None

    async def subscribe(self, partition: int) -> None:
        """Return when the wake-ups of this partition arrive from now on."""
        await self._store.subscribe(partition, self)

    def on_wake_up(self, observer: WakeUpObserver, on_gap: Callable[[int], None]) -> None:
        """Subscribe to appends to any stream of the subscribed partitions."""
        self._observers.append(observer)
        self._gap_observers.append(on_gap)

    def woken(self, wake_up: WakeUp) -> None:
        stream = self._held.get(wake_up.key)
        if stream is not None:
            stream.woken(wake_up)
        for observer in self._observers:
            observer(wake_up)

    def gap(self, partition: int) -> None:
        for stream in list(self._watched):
            if stream.key.partition(self._store.partition_count) == partition:
                stream.read_soon()
        for observer in self._gap_observers:
            observer(partition)

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            for stream in list(self._watched):
                if stream.observed:
                    stream.read_soon()

    # --- deadlines of waiters of this process -----------------------------------------------------------------------

    def set_alarm(self, at_ms: int, stream: Stream[Any]) -> Alarm:
        """Settle this stream at a time (server ms), unless it has been settled or the alarm was dropped by then."""
        alarm = self.alarms.add(at_ms + self.clock.grace_ms, stream.key)
        if alarm.at_ms < self._rings_at_ms:
            self._rings_at_ms = alarm.at_ms
            self._alarm_set.set()
        return alarm

    async def _ring_alarms(self) -> None:
        while True:
            self._alarm_set.clear()
            nearest = self.alarms.nearest()
            self._rings_at_ms = inf if nearest is None else nearest.at_ms
            if nearest is None:
                await self._alarm_set.wait()
                continue
            if self.clock.now_ms() < nearest.at_ms:
                await self._until_set_or(nearest.at_ms)
                continue
            self.alarms.drop(nearest)
            stream = self._held.get(nearest.key)
            if stream is not None and stream.observed:
                self._settle_soon(stream)

    async def _until_set_or(self, at_ms: int) -> None:
        timer = asyncio.ensure_future(self.clock.wait_until(at_ms))
        setting = asyncio.ensure_future(self._alarm_set.wait())
        try:
            await asyncio.wait((timer, setting), return_when=asyncio.FIRST_COMPLETED)
        finally:
            timer.cancel()
            setting.cancel()

    def _settle_soon(self, stream: Stream[Any]) -> None:
        task = asyncio.create_task(self._settle(stream), name=f"settle {stream.key.name}")
        self._tasks.append(task)
        task.add_done_callback(self._tasks.remove)

    async def _settle(self, stream: Stream[Any]) -> None:
        try:
            await stream.submit(SETTLE)
            due_ms = self.session_fold.next_due_ms(stream.state) if stream.key.kind == "session" else None
            if due_ms is not None and due_ms <= self.clock.now_ms():
                # The clock of the stream's node is behind our estimate: not due there yet.
                self.set_alarm(self.clock.now_ms() + SETTLE_AGAIN_MS, stream)
        except StoreError as error:
            # A waiter must not wait for ever because the server was unreachable at the deadline.
            log.warning("settling %s failed, trying again: %s", stream.key.name, error)
            self.set_alarm(self.clock.now_ms() + SETTLE_AGAIN_MS, stream)
        except LedgerError as error:
            # Damage or a newer schema: a retry changes nothing, and every reader of the stream gets the error.
            log.warning("settling %s failed: %s", stream.key.name, error)
