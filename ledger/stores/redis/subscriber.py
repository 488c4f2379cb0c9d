"""One subscriber connection to one server, reopened after it broke, for any number of channels."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any

from ledger.stores.redis.connection import ServerConnection
from ledger.stores.redis.refusals import Refusal

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
