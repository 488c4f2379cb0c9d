"""Many readers of a gateway's events: `python -m bench.gateway_readers SOCKET TOKEN COUNT`.

Prints `open` when all have their snapshot. After a number on stdin it waits until all readers have so many answers,
and prints one a line: the request, and the time when the last reader received its answer; then `done`.
"""

from __future__ import annotations

import asyncio
import re
import sys
import time
from contextlib import suppress
from functools import partial

ANSWER = b"event: permission.replied\n"
REQUEST = re.compile(rb'event: permission\.replied\ndata: [^\n]*?"request_id":"([^"]+)"')
LATE_SECONDS = 30.0
OPENED_AT_ONCE_COUNT = 50


class Answers:
    """The time when the last reader received each answer; all receive them in the same order."""

    def __init__(self, count: int) -> None:
        self.last_ns: list[int] = []
        self.readers = [0] * count
        self.opened = 0
        self.order: list[str] = []
        self.changed = asyncio.Event()

    async def until_opened(self, count: int) -> None:
        while self.opened < count:
            self.changed.clear()
            await self.changed.wait()

    async def until_told(self, count: int) -> None:
        while min(self.readers) < count:
            self.changed.clear()
            await self.changed.wait()

    def told(self, reader: int, more: int) -> None:
        old, now = self.readers[reader], time.monotonic_ns()
        new = self.readers[reader] = old + more
        if new > len(self.last_ns):
            self.last_ns += [now] * (new - len(self.last_ns))
        self.last_ns[old:new] = [now] * more
        self.changed.set()


class Reader(asyncio.Protocol):
    """Counts answers; the first reader also records their requests."""

    def __init__(self, answers: Answers, number: int, head: bytes) -> None:
        self._answers = answers
        self._number = number
        self._head = head
        self._rest = b""
        self._is_open = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        transport.write(self._head)

    def data_received(self, data: bytes) -> None:
        data = self._rest + data
        if not self._is_open and b"event: stream.open" in data:
            self._is_open = True
            self._answers.opened += 1
            self._answers.changed.set()
        if self._number == 0:
            whole, _, self._rest = data.rpartition(b"\n\n")
            self._answers.order += [found.decode() for found in REQUEST.findall(whole)]
            more = whole.count(ANSWER)
        else:
            more = data.count(ANSWER)
            self._rest = data[1 - len(ANSWER) :]
        if more:
            self._answers.told(self._number, more)


async def main(socket: str, token: str, count: int) -> None:
    loop = asyncio.get_running_loop()
    answers = Answers(count)
    head = f"GET /v1/events HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer {token}\r\n\r\n".encode()
    for number in range(count):
        await loop.create_unix_connection(partial(Reader, answers, number, head), socket)
        await answers.until_opened(number - OPENED_AT_ONCE_COUNT)
    await answers.until_opened(count)
    print("open", flush=True)
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        with suppress(TimeoutError):
            async with asyncio.timeout(LATE_SECONDS):
                await answers.until_told(int(line))
        told = min(answers.readers)
        for request, at in zip(answers.order[:told], answers.last_ns[:told], strict=True):
            print(request, at)
        print("done", flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
