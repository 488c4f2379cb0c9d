"""Wake-ups: one subscriber connection for any number of waiters.

Pub/sub loses silently, so a wake-up is only ever a hint; each confirmation of a subscription, the first one and those
after a reconnect, is reported as a gap: whoever waits reads its stream again.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable
from contextlib import suppress

from redis.asyncio.connection import AbstractConnection
from redis.exceptions import RedisError

from ledger.stores.keys import Keys
from ledger.stores.port import Entry, Listener, Position, StreamKey, WakeUp

log = logging.getLogger(__name__)

RECONNECT_SECONDS_FIRST = 0.05
RECONNECT_SECONDS_MAX = 2.0
GREETING_SECONDS = 5.0
PING_SECONDS = 10.0
"""A subscriber that hears nothing asks whether the server is still there; no answer until the next ask: reconnect."""


class Bells:
    """Subscriptions of this process to partitions' wake-ups."""

    def __init__(
        self,
        connect: Callable[[], AbstractConnection],
        keys: Keys,
        revive: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._revive = revive
        self._make = connect
        self._keys = keys
        self._listener: Listener | None = None
        self._confirmed: dict[int, asyncio.Event] = {}
        self._connection: AbstractConnection | None = None
        self._task: asyncio.Task[None] | None = None

    def listen(self, listener: Listener) -> None:
        self._listener = listener

    async def subscribe(self, partition: int) -> None:
        """Return when this partition's wake-ups arrive from now on."""
        confirmed = self._confirmed.get(partition)
        if confirmed is None:
            confirmed = self._confirmed[partition] = asyncio.Event()
            if self._task is None:
                self._task = asyncio.create_task(self._run(), name="ledger bells")
            elif self._connection is not None:
                with suppress(RedisError, OSError):
                    await self._connection.send_command("SSUBSCRIBE", self._keys.bell(partition), check_health=False)
        await confirmed.wait()

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    async def _run(self) -> None:
        pause = RECONNECT_SECONDS_FIRST
        while True:
            connection = self._make()
            try:
                # A server that hangs takes connections and never greets.
                async with asyncio.timeout(GREETING_SECONDS):
                    await connection.connect()  # type: ignore[no-untyped-call]
                self._connection = connection
                for partition in list(self._confirmed):
                    await connection.send_command("SSUBSCRIBE", self._keys.bell(partition), check_health=False)
                pause = RECONNECT_SECONDS_FIRST
                await self._hear(connection)
            except (RedisError, OSError) as error:
                log.info("wake-ups are interrupted (%s); connecting again", error)
            finally:
                self._connection = None
                with suppress(RedisError, OSError):
                    await connection.disconnect(nowait=True)
            if self._revive is not None:
                await self._revive()
            await asyncio.sleep(pause)
            pause = min(pause * 2, RECONNECT_SECONDS_MAX)

    async def _hear(self, connection: AbstractConnection) -> None:
        pinger = asyncio.create_task(self._ping(connection), name="ledger bells ping")
        try:
            while True:
                message = await connection.read_response(disable_decoding=True, timeout=math.inf)
                self._heard = True
                self._dispatch(message)
        finally:
            pinger.cancel()

    async def _ping(self, connection: AbstractConnection) -> None:
        while True:
            self._heard = False
            with suppress(RedisError, OSError):
                await connection.send_command("PING", check_health=False)
            await asyncio.sleep(PING_SECONDS)
            if not self._heard:
                # Closing the socket makes the reader fail, which leads to a new connection.
                await connection.disconnect(nowait=True)
                return

    def _dispatch(self, message: object) -> None:
        if not isinstance(message, list) or len(message) < 3 or self._listener is None:
            return
        kind = message[0]
        if kind == b"smessage":
            wake_up = parse_wake_up(message[2])
            if wake_up is not None:
                self._listener.woken(wake_up)
        elif kind == b"ssubscribe":
            partition = self._partition_of(message[1])
            self._confirmed[partition].set()
            self._listener.gap(partition)

    def _partition_of(self, channel: bytes) -> int:
        tag = channel.decode().partition("}")[0]
        return int(tag.rpartition(":")[2])


def parse_wake_up(data: bytes) -> WakeUp | None:
    """`<stream> LF <id>` or `<stream> LF <id> LF <payload> [LF <id> LF <payload> …]`; None for anything else."""
    try:
        name, *lines = data.split(b"\n")
        positions = [Position.parse(line.decode()) for line in lines[::2]]
        entries = tuple(
            Entry(position.ms, position.version, payload)
            for position, payload in zip(positions, lines[1::2], strict=False)
        )
        return WakeUp(StreamKey.parse(name.decode()), positions[-1], entries)
    except (ValueError, IndexError):
        return None
