"""`bridge opencode`: the bridge, optionally a proxy, and optionally the server itself as a child."""

from __future__ import annotations

import asyncio
import os
import signal
import ssl
from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Final, NamedTuple

from workers.bridges.opencode.bridge import OpencodeBridge
from workers.bridges.opencode.server import OpenCode, place_of
from workers.bridges.options import BridgeOptions
from workers.bridges.startup import run_bridge
from workers.bridges.stdio import tell
from workers.transport.errors import BridgeError
from workers.transport.gateway_client import GatewayClient
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


URL_DEFAULT: Final = "http://127.0.0.1:4096"
PASSWORD: Final = "OPENCODE_SERVER_PASSWORD"  # noqa: S105 - the name of a variable
USERNAME: Final = "OPENCODE_SERVER_USERNAME"
ENDING_SECONDS: Final = 5.0


class OpencodeOptions(NamedTuple):
    """The options of the command line. `program` is the command of the OpenCode server to run."""

    url: str | None = None
    directory: str | None = None
    listen: str | None = None
    program: tuple[str, ...] = ()


def run(wanted: OpencodeOptions, options: BridgeOptions) -> int:
    """Run until a signal comes or the program ends, and return its exit code. Raises BridgeError."""
    url = wanted.url or _url_in(wanted.program)
    address = None if wanted.listen is None else _address(wanted.listen)
    directory = None if wanted.directory is None else os.path.abspath(wanted.directory)  # noqa: PTH100 - as OpenCode takes it

    async def bridged(client: GatewayClient) -> int:
        return await _run(client, wanted._replace(url=url, directory=directory), address, options)

    return run_bridge(options, bridged)


async def _run(
    client: GatewayClient, wanted: OpencodeOptions, address: tuple[str, int] | None, options: BridgeOptions
) -> int:
    url = wanted.url or URL_DEFAULT
    opencode = OpenCode(url, username=os.environ.get(USERNAME) or "opencode", password=os.environ.get(PASSWORD))
    relay = Relay(place_of(url))
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for one in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(one, stop.set)
    try:
        if address is not None:
            port = await relay.start(*address)
            tell(f"forwarding http://{address[0]}:{port} on to {opencode.url}")
        bridge = OpencodeBridge(opencode, client, options, directory=wanted.directory, tell=tell)
        return await _until_either(wanted.program, bridge, stop)
    finally:
        await relay.close()
        await opencode.close()


async def _until_either(program: Sequence[str], bridge: OpencodeBridge, stop: asyncio.Event) -> int:
    child = await _started(program) if program else None
    working = asyncio.create_task(bridge.run())
    ends: list[asyncio.Task[object]] = [working, asyncio.create_task(stop.wait())]
    if child is not None:
        ends.append(asyncio.create_task(child.wait()))
    try:
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            working.result()
        if child is None:
            return 0
        # At once, since the server may take time to end; and again for its requests meanwhile.
        _, code = await asyncio.gather(bridge.server_ended(), _ended(child))
        await bridge.server_ended()
        await bridge.end_claims()
        return code
    finally:
        for one in ends:
            one.cancel()
        await asyncio.gather(*ends, return_exceptions=True)
        if child is not None:
            await _ended(child)


async def _started(program: Sequence[str]) -> asyncio.subprocess.Process:
    try:
        return await asyncio.create_subprocess_exec(*program)
    except OSError as error:
        raise BridgeError(f"`{program[0]}` cannot be run: {(error.strerror or str(error)).lower()}") from error


async def _ended(child: asyncio.subprocess.Process) -> int:
    """Return the exit code of the server, which is terminated if it runs; a signal's number as in shells."""
    if child.returncode is None:
        with suppress(ProcessLookupError):
            child.terminate()
        try:
            async with asyncio.timeout(ENDING_SECONDS):
                await child.wait()
        except TimeoutError:
            child.kill()
            await child.wait()
    code = child.returncode or 0
    return code if code >= 0 else 128 - code


def _url_in(program: Sequence[str]) -> str:
    """Return the URL that the program will listen on, from its own options."""
    words = [part for word in program for part in word.split("=", 1)]
    said = {name: value for name, value in pairwise(words) if name in ("--port", "--hostname")}
    if program and not said.get("--port", "").isdecimal():
        raise BridgeError("name the port that opencode listens on: `-- opencode serve --port 4096`, or --url")
    host = said.get("--hostname", "127.0.0.1")
    local = "127.0.0.1" if host in ("0.0.0.0", "::") else host  # noqa: S104 - compared, not listened on
    return f"http://{local}:{said['--port']}" if program else URL_DEFAULT


def _address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdecimal() or int(port) > 65535:
        raise BridgeError(f"`{text}` is not an address to listen on; write it like `127.0.0.1:4097`")
    return host.strip("[]"), int(port)
