"""The place of all measurements: one embedded server, its floors, and the other processes."""

from __future__ import annotations

import asyncio
import os
import resource
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from bench.floor import FloorClient
from bench.http_client import Connection
from bench.report import Asked, Fsync, Rounds, Row
from ledger import Ledger
from ledger.stores.keys import Keys
from ledger.stores.redis.link import Script

ROOT = Path(__file__).resolve().parents[1]

ALLOW = (
    {"permission": "bash", "pattern": "*", "action": "allow"},
    {"permission": "edit", "pattern": "*", "action": "allow"},
)
ASK = ({"permission": "bash", "pattern": "*", "action": "ask"},)

PAYLOAD = b"x" * 662
"""A payload as long as the event of an ask that a rule allows."""

KEYS_AT_ONCE_COUNT = 1000
LINE_SECONDS = 300.0
"""Time that another process may take until its next line."""


class Place(NamedTuple):
    """A ledger on its server, and a floor client."""

    url: str
    ledger: Ledger
    floor: FloorClient
    keys: Keys
    quick: bool
    stack: AsyncExitStack

    async def set_fsync(self, fsync: Fsync) -> None:
        await self.floor.send("CONFIG", "SET", "appendfsync", fsync)

    async def info(self, section: str) -> dict[str, str]:
        text: bytes = await self.floor.send("INFO", section)
        lines = (line.partition(":") for line in text.decode().splitlines())
        return {name: value for name, _, value in lines}

    async def server(self) -> str:
        """Return the server's name and version."""
        info = await self.info("server")
        return f"{info.get('server_name', 'redis')} {info.get('valkey_version', info['redis_version'])}"

    async def keys_of_server(self) -> AsyncIterator[list[str]]:
        """Iterate over the names of all keys, many at a time; a name may come twice."""
        cursor: Any = None
        while cursor != b"0":
            cursor, names = await self.floor.send("SCAN", cursor or b"0", "COUNT", KEYS_AT_ONCE_COUNT)
            yield [name.decode() for name in names]

    async def another_floor(self) -> FloorClient:
        """Open a second connection, for commands that block."""
        client = await FloorClient.connect(self.url)
        self.stack.callback(client.close)
        return client


class GatewayChild(NamedTuple):
    """A gateway as a process of its own, with an administrator's token."""

    process: Child
    socket: str
    token: str
    stack: AsyncExitStack

    async def connect(self, token: str | None = None) -> Connection:
        connection = await Connection.open(self.socket, token or self.token)
        self.stack.callback(connection.close)
        return connection


async def gateway(url: str, stack: AsyncExitStack, *words: str) -> GatewayChild:
    """Start a gateway, which ends with the stack as its connections do."""
    socket = f"{stack.enter_context(tempfile.TemporaryDirectory(prefix='pl-'))}/s"
    process = await stack.enter_async_context(child("bench.gateway_child", url, socket, *words))
    return GatewayChild(process, socket, await process.line(), stack)


class Probe:
    """One part of the table. `fsyncs` are the settings of its rounds."""

    name: ClassVar[str]
    fsyncs: ClassVar[tuple[Fsync, ...]] = ("everysec",)

    def __init__(self, *, quick: bool = False) -> None:
        self._quick = quick
        self._rounds = Rounds()

    def size(self, full: int, quick: int) -> int:
        """Return the size of a run, by whether the run is quick."""
        return quick if self._quick else full

    async def start(self, place: Place) -> None:
        raise NotImplementedError

    async def round(self, fsync: Fsync) -> None:
        raise NotImplementedError

    def asked(self) -> list[Asked]:
        """Return the rows of this part, also before it is measured."""
        raise NotImplementedError

    def rows(self) -> list[Row]:
        return [self._rounds.row(self.name, one) for one in self.asked()]


@asynccontextmanager
async def place_at(url: str, *, quick: bool) -> AsyncIterator[Place]:
    async with AsyncExitStack() as stack:
        ledger = await stack.enter_async_context(Ledger.connect(url, actor="bench", entry_points=False))
        floor = await FloorClient.connect(url)
        stack.callback(floor.close)
        await floor.send("SCRIPT", "LOAD", Script.named("append.lua").text)
        yield Place(url, ledger, floor, Keys(ledger.store.partition_count), quick, stack)


class Child:
    """Another Python process, driven by lines."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def line(self) -> str:
        """Return the next line. Raises RuntimeError when the process has ended."""
        assert self._process.stdout is not None
        line = await asyncio.wait_for(self._process.stdout.readline(), LINE_SECONDS)
        if not line:
            raise RuntimeError("a process of the bench ended; what it said is above")
        return line.decode().strip()

    async def tell(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line.encode() + b"\n")
        await self._process.stdin.drain()


class Ended(NamedTuple):
    """A program that has ended: what it said on stderr, the time, and the processor time of it and its children."""

    said: str
    seconds: float
    processor_seconds: float


async def run(*words: str, environment: Mapping[str, str] | None = None, codes: Collection[int] = (0,)) -> Ended:
    """Run Python in this checkout, one process at a time. Raises RuntimeError for another exit code."""
    none = asyncio.subprocess.DEVNULL
    before, began = _of_children(), time.perf_counter()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, *words),
        cwd=ROOT,
        env={**os.environ, **(environment or {})},
        stdin=none,
        stdout=none,
        stderr=asyncio.subprocess.PIPE,
    )
    said = (await process.communicate())[1].decode()
    seconds = time.perf_counter() - began
    if process.returncode not in codes:
        raise RuntimeError(f"`{' '.join(words)}` ended with {process.returncode}: {said}")
    return Ended(said, seconds, _of_children() - before)


def _of_children() -> float:
    """Return the processor time (seconds) of all processes that this one has waited for, and of theirs."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@asynccontextmanager
async def child(module: str, *arguments: Any) -> AsyncIterator[Child]:
    """Run a module of this checkout in a process of its own; it is ended after the block."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", module, *map(str, arguments), cwd=ROOT, stdin=pipe, stdout=pipe
    )
    async with until_ended(process) as running:
        yield running


@asynccontextmanager
async def until_ended(process: asyncio.subprocess.Process) -> AsyncIterator[Child]:
    """End a process after the block, if it has not ended by itself."""
    try:
        yield Child(process)
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()
