"""Wake-ups over one subscriber connection for any number of waiters.

Pub/sub loses messages silently, so a wake-up is only a hint. Each confirmation of a subscription, the first one and
those after a reconnect, is reported as a gap, after which waiters read their streams again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import lru_cache, partial
from typing import Any

from ledger.stores.keys import Keys
from ledger.stores.port import Entry, Position, StreamKey, WakeUp
from ledger.stores.redis.link import Revive, ServerConnection
from ledger.stores.redis.replies import Refusal
from ledger.stores.store import Listener

log = logging.getLogger(__name__)

RECONNECT_SECONDS_FIRST = 0.05
RECONNECT_SECONDS_MAX = 2.0
GREETING_SECONDS = 5.0
PING_SECONDS = 10.0
"""The interval of PINGs on an idle connection; without a reply before the next one, it reconnects."""

OnMessage = Callable[[list[Any]], None]
Refused = Callable[[Refusal], bool]
Broken = Callable[[], Awaitable[None]]


class Subscriber:
    """A subscriber that subscribes to its channels at each connect; `on_message` gets messages and confirmations.

    `refused` handles a refused subscription; if it returns False, the connection is closed. `broken` is called between
    two connections.
    """

    def __init__(
        self,
        connect: Callable[[], ServerConnection],
        on_message: OnMessage,
        *,
        refused: Refused | None = None,
        broken: Broken | None = None,
    ) -> None:
        self._make = connect
        self._on_message = on_message
        self._refused = refused
        self._broken = broken
        self._connection: ServerConnection | None = None
        self._task: asyncio.Task[None] | None = None
        self._received = False
        self._lost_at: float | None = None
        """The loop time at which the connection was lost; None while connected."""
        self.channels: dict[str, None] = {}

    async def add(self, channel: str) -> None:
        """Subscribe, now or at the next connect."""
        self.channels[channel] = None
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="ledger wake-ups")
        else:
            self._send("SSUBSCRIBE", channel)

    async def drop(self, channel: str) -> None:
        """Unsubscribe; the confirmation also goes to `on_message`."""
        if channel in self.channels:
            del self.channels[channel]
            self._send("SUNSUBSCRIBE", channel)

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    def _send(self, *command: str) -> None:
        if self._connection is not None:
            self._connection.send(*command)

    async def _run(self) -> None:
        pause = RECONNECT_SECONDS_FIRST
        while True:
            connection = self._make()
            lost: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()
            try:
                # A server that hangs accepts connections and never replies.
                async with asyncio.timeout(GREETING_SECONDS):
                    await connection.connect(partial(self._take, lost), partial(_settle, lost))
                self._connection = connection
                self._tell_reached()
                for channel in self.channels:
                    connection.send("SSUBSCRIBE", channel)
                pause = RECONNECT_SECONDS_FIRST
                self._tell_lost(await self._until(connection, lost))
            except (Refusal, OSError) as error:
                self._tell_lost(error)
            finally:
                self._connection = None
                connection.close()
            if self._broken is not None:
                await self._broken()
            await asyncio.sleep(pause)
            pause = min(pause * 2, RECONNECT_SECONDS_MAX)

    def _tell_lost(self, error: BaseException) -> None:
        """Log the loss of the connection once for each outage."""
        if self._lost_at is None:
            self._lost_at = asyncio.get_running_loop().time()
            log.warning("lost the connection to the server (%s); connecting again", str(error) or type(error).__name__)

    def _tell_reached(self) -> None:
        if self._lost_at is not None:
            seconds = asyncio.get_running_loop().time() - self._lost_at
            self._lost_at = None
            log.warning("reached the server again after %.1f s", seconds)

    def _take(self, lost: asyncio.Future[BaseException], messages: list[Any]) -> None:
        for message in messages:
            if isinstance(message, Refusal):
                if self._refused is None or not self._refused(message):
                    _settle(lost, message)
                    return
                continue
            self._received = True
            if isinstance(message, list) and len(message) >= 3:
                self._on_message(message)

    async def _until(self, connection: ServerConnection, lost: asyncio.Future[BaseException]) -> BaseException:
        """Return the reason of the connection's end; while it lasts, send PINGs."""
        while True:
            self._received = False
            connection.send("PING")
            await asyncio.wait((lost,), timeout=PING_SECONDS)
            if lost.done():
                return lost.result()
            if not self._received:
                return TimeoutError(f"no answer for {PING_SECONDS:g} s")


def _settle(lost: asyncio.Future[BaseException], reason: BaseException) -> None:
    if not lost.done():
        lost.set_result(reason)


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
