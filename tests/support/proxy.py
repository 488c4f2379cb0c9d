"""A proxy between the ledger and a real server, on a unix socket, that loses answers and connections on demand."""

from __future__ import annotations

import asyncio
import shutil
import ssl
import tempfile
from contextlib import suppress
from enum import Enum, auto
from pathlib import Path
from typing import Final

from ledger.stores.embedded.folder import socket_url

Command = tuple[bytes, ...]

_SUBSCRIBING: Final = (b"SUBSCRIBE", b"SSUBSCRIBE", b"PSUBSCRIBE")


class Fault(Enum):
    """The fault of a command."""

    NOT_FORWARDED = auto()
    """The command does not reach the server; the client's connection is cut."""

    ANSWER_LOST = auto()
    """The server answers the command; the client's connection is cut before the answer."""

    SILENCE = auto()
    """The server answers the command; the client receives nothing more, and its connection stays open."""


class _Rule:
    def __init__(self, name: str, fault: Fault, after: int, times: int | None) -> None:
        self.name = name.encode()
        self.fault = fault
        self.after = after
        self.times = times

    def fault_for(self, command: Command) -> Fault | None:
        """Return the fault of this command, counted among those of its name."""
        if command[0].upper() != self.name or self.times == 0:
            return None
        if self.after > 0:
            self.after -= 1
            return None
        if self.times is not None:
            self.times -= 1
        return self.fault


class Proxy:
    """Forwards command by command to the server at `upstream`; subscribers are forwarded as they are."""

    def __init__(self, upstream: Path) -> None:
        self._upstream = upstream
        self._folder = Path(tempfile.mkdtemp(prefix="pl-"))
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._rules: list[_Rule] = []
        self.socket = self._folder / "proxy.sock"
        self.commands: list[Command] = []
        """All commands that clients have sent."""

    @property
    def url(self) -> str:
        return socket_url(self.socket)

    def lose(self, name: str, fault: Fault, *, after: int = 0, times: int | None = 1) -> None:
        """Apply a fault to the next `times` commands of this name (None: all), after `after` unharmed ones."""
        self._rules.append(_Rule(name, fault, after, times))

    def heal(self) -> None:
        self._rules.clear()

    def sent(self, name: str) -> int:
        """Return how often clients sent a command."""
        return sum(command[0].upper() == name.encode() for command in self.commands)

    async def start(self) -> None:
        self._server = await asyncio.start_unix_server(self._accept, str(self.socket))

    async def start_tls(self, context: ssl.SSLContext) -> int:
        """Listen on a port of this machine instead, with TLS; returns the port."""
        self._server = await asyncio.start_server(self._accept, "localhost", 0, ssl=context)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def stop(self) -> None:
        """Stop listening and cut every connection; `start` may follow."""
        if self._server is not None:
            self._server.close()
            self._server = None
        await self.cut()
        self.socket.unlink(missing_ok=True)

    async def cut(self) -> None:
        """Cut every open connection."""
        connections = list(self._connections)
        for connection in connections:
            connection.cancel()
        await asyncio.gather(*connections, return_exceptions=True)

    async def close(self) -> None:
        await self.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._server is None:
            # Accepted while the proxy was being stopped.
            writer.close()
            return
        connection = asyncio.create_task(self._serve(reader, writer))
        self._connections.add(connection)
        connection.add_done_callback(self._connections.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers = [writer]
        try:
            with suppress(asyncio.IncompleteReadError, ConnectionError):
                server_reader, server_writer = await asyncio.open_unix_connection(str(self._upstream))
                writers.append(server_writer)
                await self._forward(reader, writer, server_reader, server_writer)
        finally:
            for one in writers:
                one.close()
            for one in writers:
                with suppress(ConnectionError, ssl.SSLError):
                    await one.wait_closed()

    async def _forward(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        server_reader: asyncio.StreamReader,
        server_writer: asyncio.StreamWriter,
    ) -> None:
        silent = False
        while True:
            raw, command = await _read_command(reader)
            self.commands.append(command)
            fault = next((found for rule in self._rules if (found := rule.fault_for(command))), None)
            if fault is Fault.NOT_FORWARDED:
                return
            server_writer.write(raw)
            if command[0].upper() in _SUBSCRIBING:
                await asyncio.gather(_pipe(reader, server_writer), _pipe(server_reader, writer))
                return
            answer = await _read_answer(server_reader)
            if fault is Fault.ANSWER_LOST:
                return
            silent = silent or fault is Fault.SILENCE
            if not silent:
                writer.write(answer)
                await writer.drain()


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65_536):
        writer.write(data)
        await writer.drain()
    raise ConnectionError("one side closed the connection")


async def _read_command(reader: asyncio.StreamReader) -> tuple[bytes, Command]:
    """Read the next command: its raw bytes, and its words."""
    head = await reader.readuntil(b"\r\n")
    raw, words = [head], []
    for _ in range(int(head[1:])):
        size = await reader.readuntil(b"\r\n")
        word = await reader.readexactly(int(size[1:]) + 2)
        raw += [size, word]
        words.append(word[:-2])
    return b"".join(raw), tuple(words)


async def _read_answer(reader: asyncio.StreamReader) -> bytes:
    """Read the next RESP2 answer, unchanged."""
    head = await reader.readuntil(b"\r\n")
    kind, size = head[:1], head[1:]
    if kind == b"$" and int(size) >= 0:
        return head + await reader.readexactly(int(size) + 2)
    if kind == b"*" and int(size) > 0:
        return head + b"".join([await _read_answer(reader) for _ in range(int(size))])
    return head
