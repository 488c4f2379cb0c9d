"""A pipelining connection: commands of many callers are sent together, and replies come back in order.

A `ServerConnection` goes by TCP, TLS or a unix socket; hiredis packs its commands and parses its replies, and those of one
read are delivered together, without an event-loop turn between the bytes and the waiter. A `Link` sends the first
command at once; while replies are awaited, the commands of one turn of the event loop are sent in one write. It never
sends a command twice: when the connection breaks, every command without a reply fails, and the caller decides.
`Commands`, `WakeUps` and `Servers` are the interfaces that one server, the primary that sentinels name, and the nodes of
a cluster have in common.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import lru_cache
from hashlib import sha1
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import hiredis

from ledger.stores.keys import Keys
from ledger.stores.redis.replies import Refusal
from ledger.stores.store import Listener

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


class Script:
    """A Lua script by its hash. The hash is the version: old and new workers may use one server."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.sha = sha1(text.encode(), usedforsecurity=False).hexdigest()

    @classmethod
    @lru_cache(None)
    def named(cls, name: str) -> Script:
        return cls(Path(__file__).with_name(name).read_text(encoding="utf-8"))

    def call(self, keys: Sequence[str], arguments: Sequence[Argument]) -> CommandLine:
        return ("EVALSHA", self.sha, len(keys), *keys, *arguments)


Revive = Callable[[], Awaitable[None]]
"""A callback that restarts a server which died while this process held it (the embedded one); never raises."""


class Commands(Protocol):
    """A command interface to the servers, wherever the keys are."""

    async def run(self, commands: Sequence[CommandLine], *, in_order: bool = False) -> list[Any]:
        """Return the replies in order; a refusal of a server is a Refusal among them. Raises LinkError.

        With `in_order` each command runs after those before it, also across nodes.
        """
        ...

    def send(self, command: CommandLine, receiver: Receiver) -> None:
        """Send one command at once; where that is impossible, `receiver` gets a LinkError that says so."""
        receiver.fail(LinkError("only `run` sends to several servers or in batches", sent=False))

    @property
    def server(self) -> str:
        """Return the id of the connected server (new after each start and promotion), if known for sure, else ''."""
        return ""

    @property
    def connection(self) -> int:
        """Return the number of the present connection, or 0 where there is none, or several."""
        return 0

    def note_server(self, server: str, connection: int) -> None:
        """Note the id of the connected server as told over this connection, if it is still the present one."""
        return

    async def everywhere(self) -> Sequence[Commands]:
        """Return an interface to each server that holds keys, for commands that all must run. Raises LinkError."""
        ...

    def replica(self, address: tuple[str, int]) -> Commands | None:
        """Return an interface to a replica at the address that its primary names; None where it is not for us."""
        return None

    async def close(self) -> None: ...


class WakeUps(Protocol):
    """Subscriptions of this process to partitions' wake-ups."""

    def listen(self, listener: Listener) -> None: ...

    async def subscribe(self, partition: int) -> None:
        """Return when the subscription to this partition's wake-ups is confirmed."""
        ...

    async def close(self) -> None: ...


class Servers(Protocol):
    """A factory of command interfaces and subscriptions for one deployment."""

    @property
    def others_take_over(self) -> bool:
        """Return whether another server takes over from a lost one."""
        ...

    def commands(self, answer_seconds: float, *, confirmed: bool = False) -> Commands:
        """Return a command interface; `confirmed` is for writes followed by WAIT, which blocks its connection."""
        ...

    def wake_ups(self, keys: Keys, revive: Revive | None) -> WakeUps: ...

    async def close(self) -> None: ...


CONFIRMING = ("WAIT", "WAITAOF")


class ConfirmedLink(Commands):
    """A link for writes that count only after confirmed replication (or fsync), many confirmed by one WAIT.

    WAIT covers only the writes of its own connection, and blocks later commands on it. So these writes have a connection
    of their own, and those that arrive during one WAIT are batched for the next.
    """

    def __init__(self, link: Link) -> None:
        self._link = link
        self._queue: list[tuple[Sequence[CommandLine], asyncio.Future[list[Any]]]] = []
        self._turns: asyncio.Task[None] | None = None

    async def run(self, commands: Sequence[CommandLine], *, in_order: bool = False) -> list[Any]:
        """As `Link.run`; the reply to a WAIT covers all commands of its batch."""
        future: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()
        self._queue.append((commands, future))
        if self._turns is None or self._turns.done():
            self._turns = asyncio.create_task(self._take_turns(), name="ledger confirmed link")
        return await future

    async def everywhere(self) -> list[Link]:
        return [self._link]

    async def close(self) -> None:
        if self._turns is not None:
            self._turns.cancel()
            with suppress(asyncio.CancelledError):
                await self._turns
        await self._link.close()

    async def _take_turns(self) -> None:
        while self._queue:
            turn, self._queue = self._queue, []
            try:
                replies = await self._run_turn([commands for commands, _ in turn])
            except LinkError as error:
                _fail(turn, error)
            except asyncio.CancelledError:
                _fail([*turn, *self._queue], LinkError("the connection was closed", sent=True))
                raise
            else:
                for (_, future), answers in zip(turn, replies, strict=True):
                    if not future.done():
                        future.set_result(answers)

    async def _run_turn(self, calls: Sequence[Sequence[CommandLine]]) -> list[list[Any]]:
        plain = [command for commands in calls for command in commands if command[0] not in CONFIRMING]
        waits = list(dict.fromkeys(command for commands in calls for command in commands if command[0] in CONFIRMING))
        replies = await self._link.run([*plain, *waits])
        confirmations = dict(zip(waits, replies[len(plain) :], strict=True))
        answers = iter(replies)
        return [
            [confirmations[command] if command[0] in CONFIRMING else next(answers) for command in commands]
            for commands in calls
        ]


def _fail(turn: Sequence[tuple[Sequence[CommandLine], asyncio.Future[list[Any]]]], error: LinkError) -> None:
    for _, future in turn:
        if not future.done():
            future.set_exception(error)
