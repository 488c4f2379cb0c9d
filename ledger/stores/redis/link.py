"""A pipelining connection: commands of many callers are sent together, and replies come back in order.

The first command is sent at once; while replies are awaited, the commands of one turn of the event loop are sent in one
write. A link never sends a command twice: when the connection breaks, every command without a reply fails, and the
caller decides.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import hiredis

from ledger.stores.redis.connection import ServerConnection
from ledger.stores.redis.refusals import Refusal

Argument = bytes | str | int | float
CommandLine = tuple[Any, ...]
"""A command and its arguments, each an `Argument`."""


SERVER_SECONDS = 1.0
"""The time for which a server counts as the same one over an unbroken connection.

A suspended process, or one that was idle, looks again: meanwhile the server may have been demoted and promoted.
"""


class LinkError(Exception):
    """The connection could not be made, or broke. `sent`: the server may have received the commands.

    `refused` is the server's refusal of the connection where a retry is useless (a wrong password).
    """

    def __init__(self, text: str, *, sent: bool, refused: Refusal | None = None) -> None:
        super().__init__(text)
        self.sent = sent
        self.refused = refused


class Receiver(Protocol):
    """A receiver of the replies to its commands. Neither method may block or raise."""

    since: float
    """The time at which its commands were submitted, by this machine's monotonic clock."""

    @property
    def open(self) -> int:
        """Return the number of replies that it still awaits."""
        ...

    def take(self, replies: list[Any]) -> None:
        """Take the next replies, at most those that it awaits."""
        ...

    def fail(self, error: LinkError) -> None: ...


class _Group:
    """The commands of one call, and the replies received so far."""

    __slots__ = ("future", "open", "replies", "since")

    def __init__(self, count: int, loop: asyncio.AbstractEventLoop) -> None:
        self.open = count
        self.replies: list[Any] = []
        self.future: asyncio.Future[list[Any]] = loop.create_future()
        self.since = time.monotonic()

    def take(self, replies: list[Any]) -> None:
        self.replies += replies
        self.open -= len(replies)
        if self.open == 0 and not self.future.done():
            self.future.set_result(self.replies)

    def fail(self, error: LinkError) -> None:
        if not self.future.done():
            self.future.set_exception(error)


class Link:
    """A pipelining connection, opened on first use and reopened after it broke."""

    def __init__(self, connect: Callable[[], ServerConnection], answer_seconds: float) -> None:
        self._make = connect
        self._flush_due = False
        self._answer_seconds = answer_seconds
        self._connection: ServerConnection | None = None
        self._connecting = asyncio.Lock()
        self._outbox: list[bytes] = []
        self._awaited: deque[Receiver] = deque()
        self._watchdog: asyncio.TimerHandle | None = None
        self._connections = 0
        self._server = ""
        self._server_until = 0.0

    @property
    def server(self) -> str:
        """Return the id of the connected server as told within the last second over this connection, else ''.

        A command that is sent in the same step of the event loop goes over the same connection.
        """
        return self._server if self._server and time.monotonic() < self._server_until else ""

    @property
    def connection(self) -> int:
        return 0 if self._connection is None else self._connections

    def note_server(self, server: str, connection: int) -> None:
        if connection and connection == self.connection:
            self._server, self._server_until = server, time.monotonic() + SERVER_SECONDS

    async def run(self, commands: Sequence[CommandLine], *, in_order: bool = False) -> list[Any]:
        """Return the replies in order; a refusal of the server is a Refusal among them. Raises LinkError.

        On one connection commands always run in order, whatever `in_order` is.
        """
        if self._connection is None:
            await self._connect()
        group = _Group(len(commands), asyncio.get_running_loop())
        is_idle = not self._awaited
        self._outbox += map(hiredis.pack_command, commands)
        self._awaited.append(group)
        self._send_soon(is_idle=is_idle)
        return await group.future

    def send(self, command: CommandLine, receiver: Receiver) -> None:
        """Send one command at once, whose reply goes to `receiver`; without a connection it gets a LinkError."""
        if self._connection is None:
            receiver.fail(LinkError("there is no connection yet", sent=False))
            return
        is_idle = not self._awaited
        receiver.since = time.monotonic()
        self._outbox.append(hiredis.pack_command(command))
        self._awaited.append(receiver)
        self._send_soon(is_idle=is_idle)

    def _send_soon(self, *, is_idle: bool) -> None:
        if is_idle:
            self._flush()
        elif not self._flush_due:
            # Other commands of this turn of the loop are sent in the same write.
            self._flush_due = True
            asyncio.get_running_loop().call_soon(self._flush)
        if self._watchdog is None:
            self._watch()

    async def one(self, *command: Argument) -> Any:
        """Return the reply to one command. Raises Refusal or LinkError."""
        reply = (await self.run((command,)))[0]
        if isinstance(reply, Refusal):
            raise reply
        return reply

    async def everywhere(self) -> list[Link]:
        """Return a link to each server that holds keys: only this one."""
        return [self]

    def replica(self, _address: tuple[str, int]) -> None:
        """Return None: only in a cluster are the addresses of replicas certainly those for clients."""

    async def close(self) -> None:
        self._break(LinkError("the connection was closed", sent=True))

    async def _connect(self) -> None:
        async with self._connecting:
            if self._connection is not None:
                return
            connection = self._make()
            try:
                # A server that hangs accepts connections and never replies.
                async with asyncio.timeout(self._answer_seconds):
                    await connection.connect(self._deliver, lambda error: self._lost(connection, error))
                self._connection = connection
                self._connections += 1
            except (Refusal, OSError) as error:
                why = str(error) or f"no greeting for {self._answer_seconds:g} s"
                refused = error if isinstance(error, Refusal) and not error.will_pass else None
                raise LinkError(why, sent=False, refused=refused) from error
            finally:
                if self._connection is None:
                    connection.close()

    def _flush(self) -> None:
        self._flush_due = False
        outbox, self._outbox = self._outbox, []
        # Without a connection it broke in this very turn, and the waiters have failed.
        if self._connection is not None and outbox:
            self._connection.write(b"".join(outbox))

    def _deliver(self, replies: list[Any]) -> None:
        """Give replies to their receivers, in order. Raises IndexError for replies that nobody awaits."""
        while replies:
            receiver = self._awaited[0]
            taken, replies = replies[: receiver.open], replies[receiver.open :]
            if replies or len(taken) == receiver.open:
                self._awaited.popleft()
            receiver.take(taken)

    def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        self._watchdog = loop.call_later(self._answer_seconds / 2, self._look_for_silence)

    def _look_for_silence(self) -> None:
        self._watchdog = None
        if not self._awaited or self._connection is None:
            return
        waited = time.monotonic() - self._awaited[0].since
        if waited >= self._answer_seconds:
            silence = TimeoutError(f"no answer for {waited:.1f} s")
            self._lost(self._connection, silence)
        else:
            self._watch()

    def _lost(self, connection: ServerConnection, error: BaseException) -> None:
        if connection is self._connection:
            broken = LinkError(f"the connection broke: {error}", sent=True)
            broken.__cause__ = error
            self._break(broken)

    def _break(self, error: LinkError) -> None:
        connection, self._connection = self._connection, None
        awaited, self._awaited = self._awaited, deque[Receiver]()
        self._outbox = []
        self._server = ""
        if connection is not None:
            connection.close()
        for group in awaited:
            group.fail(error)
