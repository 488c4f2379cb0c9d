"""A connection to a server, by TCP, TLS or a unix socket. hiredis packs its commands and parses its replies.

The replies of one read are delivered together, without an event-loop turn between the bytes and the waiter.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import hiredis

from ledger.stores.redis.refusals import Refusal

if TYPE_CHECKING:
    from ssl import SSLContext

CONNECT_SECONDS: Final = 5.0

CLIENT_NAME: Final = "permission-ledger"
"""The name of the connections, as the server's CLIENT LIST shows it."""

_MORE: Final = object()
"""The parser's word for an unfinished reply."""

Address = tuple[str, int]
Take = Callable[[list[Any]], None]
Lost = Callable[[BaseException], None]


class ServerTarget(NamedTuple):
    """The server of a connection, and the user to log in as."""

    address: Address = ("localhost", 6379)
    path: str = ""
    """The path of a unix socket, in place of an address."""

    username: str = ""
    password: str = ""
    database: int = 0
    tls: Callable[[], SSLContext] | None = None
    primary: Callable[[], Awaitable[Address]] | None = None
    """Finds the address of the primary, for each connection."""

    def greeting(self) -> list[tuple[Any, ...]]:
        """Return the commands that log in, name the connection and choose its database."""
        commands: list[tuple[Any, ...]] = [("CLIENT", "SETNAME", CLIENT_NAME)]
        if self.username:
            commands.insert(0, ("AUTH", self.username, self.password))
        elif self.password:
            commands.insert(0, ("AUTH", self.password))
        if self.database:
            commands.append(("SELECT", self.database))
        if self.primary is not None:
            commands.append(("ROLE",))
        return commands


class ServerConnection(asyncio.Protocol):
    """A connection that is opened once, and not again after it broke."""

    def __init__(self, target: ServerTarget) -> None:
        self._target = target
        self._parser = hiredis.Reader(replyError=Refusal, notEnoughData=_MORE)
        self._transport: asyncio.Transport | None = None
        self._take: Take
        self._lost: Lost | None = None

    async def connect(self, take: Take, lost: Lost) -> None:
        """Connect and log in; `take` gets all replies from then on, and `lost` once the reason of the end.

        Raises Refusal, and OSError without a server.
        """
        greeted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        replies: list[Any] = []
        commands = self._target.greeting()

        def greet(some: list[Any]) -> None:
            replies.extend(some)
            if len(replies) >= len(commands) and not greeted.done():
                greeted.set_result(None)

        def fail(error: BaseException) -> None:
            if not greeted.done():
                greeted.set_exception(error)

        self._take, self._lost = greet, fail
        self._transport = await self._opened()
        self._transport.write(b"".join(map(hiredis.pack_command, commands)))
        await greeted
        for reply in replies:
            if isinstance(reply, Refusal):
                raise reply
        if self._lost is None:
            raise OSError("closed by the server")
        if self._target.primary is not None and replies[-1][0] != b"master":
            # A sentinel that has not learned of the failover yet names the old primary.
            raise OSError(f"sentinels name a {replies[-1][0].decode()} as the primary; failover in progress?")
        self._take, self._lost = take, lost

    async def _opened(self) -> asyncio.Transport:
        loop = asyncio.get_running_loop()
        target = self._target
        address = target.address if target.primary is None else await target.primary()
        where = target.path or "{}:{}".format(*address)
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                if target.path:
                    return (await loop.create_unix_connection(lambda: self, target.path))[0]
                tls = None if target.tls is None else target.tls()
                transport, _ = await loop.create_connection(lambda: self, *address, ssl=tls)
        except TimeoutError:
            raise TimeoutError(f"no connection to {where} for {CONNECT_SECONDS:g} s") from None
        except (OSError, ValueError) as error:
            raise OSError(f"no connection to {where}: {error}") from error
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        return transport

    def send(self, *command: Any) -> None:
        self.write(hiredis.pack_command(command))

    def write(self, data: bytes) -> None:
        """Send packed commands; nothing is sent once the connection broke."""
        if self._transport is not None and self._lost is not None:
            self._transport.write(data)

    def close(self) -> None:
        """Close the connection, without a word to `lost`."""
        self._lost = None
        if self._transport is not None:
            self._transport.close()

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed(data)
            replies = list(iter(self._parser.gets, _MORE))
            if any(map(isinstance, replies, repeat(Refusal))):
                replies = self._until_sent_away(replies)
            if replies and self._lost is not None:
                self._take(replies)
        except Refusal as error:
            self._end(error)
        except (hiredis.ProtocolError, IndexError) as error:
            self._end(OSError(f"what came is no answer: {error}"))

    def _until_sent_away(self, replies: list[Any]) -> list[Any]:
        """Deliver what precedes an error by which the server accepts no commands (it is loading), and raise that."""
        for at, reply in enumerate(replies):
            if isinstance(reply, Refusal) and reply.sends_away:
                self._take(replies[:at])
                raise reply
        return replies

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(exc or OSError("closed by the server"))

    def _end(self, error: BaseException) -> None:
        lost, self._lost = self._lost, None
        if lost is not None:
            lost(error)
