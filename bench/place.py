"""The place of all measurements: one embedded server, its floors, and the other processes."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from bench.floor import FloorClient
from bench.report import Fsync, Row
from ledger import Ledger
from ledger.stores.keys import Keys
from ledger.stores.redis.script import Script

ROOT = Path(__file__).resolve().parents[1]

ALLOW = (
    {"permission": "bash", "pattern": "*", "action": "allow"},
    {"permission": "edit", "pattern": "*", "action": "allow"},
)
ASK = ({"permission": "bash", "pattern": "*", "action": "ask"},)

PAYLOAD = b"x" * 662
"""A payload as long as the event of an ask that a rule allows."""

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

    def size(self, full: int, quick: int) -> int:
        """Return the size of a run, by whether the run is quick."""
        return quick if self.quick else full

    async def set_fsync(self, fsync: Fsync) -> None:
        await self.floor.send("CONFIG", "SET", "appendfsync", fsync)

    async def info(self, section: str) -> dict[str, str]:
        text: bytes = await self.floor.send("INFO", section)
        lines = (line.partition(":") for line in text.decode().splitlines())
        return {name: value for name, _, value in lines}

    async def another_floor(self) -> FloorClient:
        """Open a second connection, for commands that block."""
        client = await FloorClient.connect(self.url)
        self.stack.callback(client.close)
        return client


class Probe(Protocol):
    """One part of the table. `fsyncs` are the settings of its rounds."""

    name: str
    fsyncs: tuple[Fsync, ...]

    async def start(self, place: Place) -> None: ...

    async def round(self, fsync: Fsync) -> None: ...

    def rows(self) -> list[Row]: ...


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
