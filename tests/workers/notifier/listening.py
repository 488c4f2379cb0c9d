"""A service on this machine that takes messages as apprise's `json://` sends them; and settings for it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from ledger import Ledger
from workers.notifier.notifier import run
from workers.notifier.settings import NotifierSettings, Recipient, Service, Timing

TIMING = Timing(
    steps_ms=(0, 3_600_000, 86_400_000),
    collapse_ms=300_000,
    an_hour_a_session=5,
    a_day_a_person=20,
    retry_ms=30_000,
    tries=3,
)


class Listening:
    """A server that records its messages in order; it answers errors when `broken`, and not at all when `silent`."""

    def __init__(self) -> None:
        self.port = 0
        self.messages: list[dict[str, Any]] = []
        self.broken = False
        self.silent = False
        self.mute_once = False
        """The next message is taken without a word, until the sender goes."""
        self.tried = 0
        self._answering: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        return f"json://127.0.0.1:{self.port}/secret-path"

    @property
    def titles(self) -> list[str]:
        return [one["title"] for one in self.messages]

    def received(self, text: str) -> bool:
        """Return whether a message held this text."""
        return any(text in one["message"] for one in self.messages)

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._answering.add(task)
        try:
            await self._answer(reader, writer)
        finally:
            writer.close()
            self._answering.discard(task)

    async def close(self) -> None:
        """End the connections that are still open: left to the garbage collector, they fail a later test."""
        answering = list(self._answering)
        for task in answering:
            task.cancel()
        await asyncio.gather(*answering, return_exceptions=True)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = next(int(line.partition(":")[2]) for line in head.splitlines() if line.startswith("content-length"))
        body = json.loads(await reader.readexactly(length))
        self.tried += 1
        if self.silent:
            await reader.read()
        elif self.mute_once:
            self.mute_once = False
            self.messages.append(body)
            await reader.read()
        elif self.broken:
            writer.write(b"HTTP/1.1 500 Oh\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        else:
            self.messages.append(body)
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        writer.close()
        await writer.wait_closed()


@asynccontextmanager
async def listening() -> AsyncIterator[Listening]:
    one = Listening()
    server = await asyncio.start_server(one.answer, "127.0.0.1", 0)
    one.port = server.sockets[0].getsockname()[1]
    try:
        yield one
    finally:
        server.close()
        await one.close()


@asynccontextmanager
async def notifying(ledger: Ledger, settings: NotifierSettings) -> AsyncIterator[None]:
    """A notifier at work, until the block ends."""
    stop = asyncio.Event()
    working = asyncio.create_task(run(ledger, stop, settings))
    try:
        yield
    finally:
        stop.set()
        await working


def settings_for(*people: tuple[str, str], timing: Timing = TIMING, lease_ms: int = 60_000) -> NotifierSettings:
    """People by name, each with one service at a URL."""
    return NotifierSettings(
        people=tuple((Recipient(name), (Service("json", url),)) for name, url in people),
        timing=timing,
        public_url="https://permits.example.com",
        link_ms=7 * 86_400_000,
        timeout_seconds=5.0,
        lease_ms=lease_ms,
    )
