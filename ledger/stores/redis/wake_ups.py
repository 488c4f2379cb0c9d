"""Wake-ups over one subscriber connection for any number of waiters.

Pub/sub loses messages silently, so a wake-up is only a hint. Each confirmation of a subscription, the first one and
those after a reconnect, is reported as a gap, after which waiters read their streams again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from ledger.stores.keys import Keys
from ledger.stores.port import Entry, Listener, Position, StreamKey, WakeUp
from ledger.stores.redis.connection import ServerConnection
from ledger.stores.redis.servers import Revive
from ledger.stores.redis.subscriber import Subscriber

KEYS_KEPT_COUNT = 1024
"""The cache size of parsed stream names."""


class WakeUpDispatcher:
    """The delivery of wake-ups and gaps to the listener, from any connection."""

    def __init__(self, keys: Keys) -> None:
        self.keys = keys
        self._listener: Listener | None = None
        self._confirmed: dict[int, asyncio.Event] = {}

    @property
    def partitions(self) -> list[int]:
        """Return the partitions with a subscription, requested or confirmed."""
        return list(self._confirmed)

    def listen(self, listener: Listener) -> None:
        self._listener = listener

    def wanted(self, partition: int) -> tuple[asyncio.Event, bool]:
        """Return the event that a confirmed subscription sets, and whether this partition is new."""
        known = self._confirmed.get(partition)
        return (known, False) if known else (self._confirmed.setdefault(partition, asyncio.Event()), True)

    def take(self, message: list[Any]) -> None:
        if message[0] == b"smessage":
            wake_up = parse_wake_up(message[2])
            if wake_up is not None and self._listener is not None:
                self._listener.woken(wake_up)
        elif message[0] == b"ssubscribe":
            partition = self.keys.partition_of_channel(message[1])
            self._confirmed[partition].set()
            if self._listener is not None:
                self._listener.gap(partition)


class ServerWakeUps:
    """Subscriptions of this process to partitions' wake-ups on one server."""

    def __init__(
        self,
        connect: Callable[[], ServerConnection],
        keys: Keys,
        revive: Revive | None = None,
    ) -> None:
        self._dispatcher = WakeUpDispatcher(keys)
        self._subscriber = Subscriber(connect, self._dispatcher.take, broken=revive)

    def listen(self, listener: Listener) -> None:
        self._dispatcher.listen(listener)

    async def subscribe(self, partition: int) -> None:
        """Return when this partition's wake-ups arrive from now on."""
        confirmed, is_new = self._dispatcher.wanted(partition)
        if is_new:
            await self._subscriber.add(self._dispatcher.keys.channel(partition))
        await confirmed.wait()

    async def close(self) -> None:
        await self._subscriber.close()


@lru_cache(KEYS_KEPT_COUNT)
def _key_named(name: bytes) -> StreamKey:
    return StreamKey.parse(name.decode())


def parse_wake_up(data: bytes) -> WakeUp | None:
    """`<stream> LF <id>` or `<stream> [LF <id> LF <payload> LF <content>] …`; None for anything else."""
    try:
        name, *lines = data.split(b"\n")
        key = _key_named(name)
        if len(lines) == 3:
            # The common case.
            ms, _, version = lines[0].partition(b"-")
            head = Position(int(ms), int(version))
            return WakeUp(key, head, (Entry(*head, lines[1], lines[2] or None),))
        if len(lines) == 1:
            return WakeUp(key, Position.parse(lines[0].decode()), ())
        entries = tuple([_entry(*one) for one in zip(lines[::3], lines[1::3], lines[2::3], strict=True)])
        return WakeUp(key, entries[-1].position, entries)
    except (ValueError, IndexError):
        return None


def _entry(entry_id: bytes, payload: bytes, content: bytes) -> Entry:
    ms, _, version = entry_id.partition(b"-")
    return Entry(int(ms), int(version), payload, content or None)
