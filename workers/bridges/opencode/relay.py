"""A proxy in front of an OpenCode server: every byte unchanged, in both directions, at once."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress
from typing import Final

from workers.transport.errors import BridgeError
from workers.transport.place import ServerAddress

PIECE_BYTES: Final = 64 * 1024
CONNECT_SECONDS: Final = 5.0


class Relay:
    """A listener for clients of OpenCode that connects each of them to the server itself."""

    def __init__(self, target: ServerAddress) -> None:
        self._target = target
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()

    async def start(self, host: str, port: int) -> int:
        """Listen, and return the port. Raises BridgeError."""
        try:
            self._server = await asyncio.start_server(self._connected, host, port)
        except OSError as error:
            raise BridgeError(
                f"`{host}:{port}` cannot be listened on: {(error.strerror or str(error)).lower()}"
            ) from error
        bound: int = self._server.sockets[0].getsockname()[1]
        return bound

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            await self._relay(reader, writer)
        except (OSError, TimeoutError, asyncio.CancelledError):
            # One side is closed; the other side's own connection shows it.
            writer.transport.abort()
        finally:
            self._open.discard(task)

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        context = ssl.create_default_context() if self._target.tls else None
        async with asyncio.timeout(CONNECT_SECONDS):
            far_reader, far_writer = await asyncio.open_connection(self._target.host, self._target.port, ssl=context)
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(_pump(reader, far_writer))
                both.create_task(_pump(far_reader, writer))
        except* OSError:
            far_writer.transport.abort()
            raise ConnectionError("one side closed the connection") from None
        finally:
            for one in (far_writer, writer):
                one.close()
                with suppress(OSError):
                    await one.wait_closed()


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    while piece := await source.read(PIECE_BYTES):
        sink.write(piece)
        await sink.drain()
    # A client may have sent everything, and still wait for the answer.
    if sink.can_write_eof():
        sink.write_eof()
