"""One subscriber connection to one server, reopened after it broke, for any number of channels.

Its messages are read as a link's replies are (`ledger.stores.redis.answers`), or by redis-py's methods (`direct=False`).
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from redis.asyncio.connection import AbstractConnection
from redis.exceptions import RedisError, ResponseError

from ledger.stores.redis.answers import ReplyReader, writer_of

log = logging.getLogger(__name__)

RECONNECT_SECONDS_FIRST = 0.05
RECONNECT_SECONDS_MAX = 2.0
GREETING_SECONDS = 5.0
PING_SECONDS = 10.0
"""The interval of PINGs on an idle connection; without a reply before the next one, it reconnects."""

OnMessage = Callable[[list[Any]], None]
Refused = Callable[[ResponseError], bool]
Broken = Callable[[], Awaitable[None]]


class Subscriber:
    """A subscriber that subscribes to its channels at each connect; `on_message` gets messages and confirmations.

    `refused` handles a refused subscription; if it returns False, the connection is closed. `broken` is called between
    two connections.
    """

    def __init__(
        self,
        connect: Callable[[], AbstractConnection],
        on_message: OnMessage,
        *,
        refused: Refused | None = None,
        broken: Broken | None = None,
        direct: bool = True,
    ) -> None:
        self._make = connect
        self._direct = direct
        self._on_message = on_message
        self._refused = refused
        self._broken = broken
        self._connection: AbstractConnection | None = None
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
            await self._send("SSUBSCRIBE", channel)

    async def drop(self, channel: str) -> None:
        """Unsubscribe; the confirmation also goes to `on_message`."""
        if channel in self.channels:
            del self.channels[channel]
            await self._send("SUNSUBSCRIBE", channel)

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    async def _send(self, *command: str) -> None:
        if self._connection is not None:
            with suppress(RedisError, OSError):
                await self._connection.send_command(*command, check_health=False)

    async def _run(self) -> None:
        pause = RECONNECT_SECONDS_FIRST
        while True:
            connection = self._make()
            try:
                # A server that hangs accepts connections and never replies to HELLO.
                async with asyncio.timeout(GREETING_SECONDS):
                    await connection.connect()  # type: ignore[no-untyped-call]
                self._connection = connection
                self._tell_reached()
                lost = self._take_over(connection)
                for channel in list(self.channels):
                    await connection.send_command("SSUBSCRIBE", channel, check_health=False)
                pause = RECONNECT_SECONDS_FIRST
                await self._hear(connection, lost)
            except (RedisError, OSError) as error:
                self._tell_lost(error)
            finally:
                self._connection = None
                with suppress(RedisError, OSError):
                    await connection.disconnect(nowait=True)
            if self._broken is not None:
                await self._broken()
            await asyncio.sleep(pause)
            pause = min(pause * 2, RECONNECT_SECONDS_MAX)

    def _tell_lost(self, error: Exception) -> None:
        """Log the loss of the connection once for each outage."""
        if self._lost_at is None:
            self._lost_at = asyncio.get_running_loop().time()
            log.warning("lost the connection to the server (%s); connecting again", str(error) or type(error).__name__)

    def _tell_reached(self) -> None:
        if self._lost_at is not None:
            seconds = asyncio.get_running_loop().time() - self._lost_at
            self._lost_at = None
            log.warning("reached the server again after %.1f s", seconds)

    def _take_over(self, connection: AbstractConnection) -> asyncio.Future[None] | None:
        """Take over reading; the future fails when the connection breaks. None: redis-py's methods are needed."""
        writer = writer_of(connection) if self._direct else None
        if writer is None:
            return None
        lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # It may break before it is awaited.
        lost.add_done_callback(lambda future: future.cancelled() or future.exception())

        def end(error: BaseException) -> None:
            if not lost.done():
                lost.set_exception(error)

        def take(messages: list[Any]) -> None:
            try:
                for message in messages:
                    self._take(message)
            except ResponseError as refusal:
                end(refusal)

        writer.transport.set_protocol(ReplyReader(take, end))
        return lost

    async def _hear(self, connection: AbstractConnection, lost: asyncio.Future[None] | None) -> None:
        pinger = asyncio.create_task(self._ping(connection), name="ledger wake-ups ping")
        try:
            if lost is not None:
                await lost
            while True:
                try:
                    message = await connection.read_response(disable_decoding=True, timeout=math.inf)
                except ResponseError as refusal:
                    message = refusal
                self._take(message)
        finally:
            pinger.cancel()

    def _take(self, message: Any) -> None:
        """Deliver a message. Raises the refusal after which to reconnect."""
        if isinstance(message, ResponseError):
            if self._refused is None or not self._refused(message):
                raise message
            return
        self._received = True
        if isinstance(message, list) and len(message) >= 3:
            self._on_message(message)

    async def _ping(self, connection: AbstractConnection) -> None:
        while True:
            self._received = False
            with suppress(RedisError, OSError):
                await connection.send_command("PING", check_health=False)
            await asyncio.sleep(PING_SECONDS)
            if not self._received:
                # Closing the socket makes the reader fail, and the subscriber reconnect.
                await connection.disconnect(nowait=True)
                return
