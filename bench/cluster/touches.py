"""The keys that commands and scripts touch, counted by MONITOR."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

from bench.cluster.nodes import HOST, Node

OWN: Final = "}:s:"
LINE_BYTES: Final = 2**24
_COMMAND: Final = re.compile(rb'^\+[\d.]+ \[\d+ [^\]]+\] "([^"]*)"')
_KEY: Final = re.compile(rb'"(\{pl:\d+\}:[^" ]*|pl:config)"')
_WHOLE: Final = ("pl:config", *(f"{{pl:0}}:{name}" for name in ("inbox", "notes:", "reads:", "turn:")))
"""`inbox` begins `inboxes`, too."""

_SCRIPTS: Final = frozenset({b"EVALSHA", b"EVAL", b"FCALL"})
"""Not counted: what a script does with its keys is told line by line."""


class Touches:
    """Touches by key."""

    def __init__(self) -> None:
        self.by_key: Counter[str] = Counter()

    def read(self, line: bytes) -> None:
        command = _COMMAND.match(line)
        if command is None or command[1].upper() in _SCRIPTS:
            return
        found = _KEY.search(line)
        if found is not None:
            self.by_key[found[1].decode()] += 1

    @property
    def total(self) -> int:
        return self.by_key.total()

    @property
    def of_the_whole(self) -> int:
        """Return the touches of keys that exist once in a ledger: its settings, and those of partition 0."""
        return sum(times for key, times in self.by_key.items() if key.startswith(_WHOLE))

    def hottest(self, count: int) -> list[tuple[str, int]]:
        """Return the most used keys; a session's own stream, which has the ten events of that session, is none."""
        return Counter({key: times for key, times in self.by_key.items() if OWN not in key}).most_common(count)


@asynccontextmanager
async def monitoring(nodes: Sequence[Node]) -> AsyncIterator[Touches]:
    """Count the touches of all nodes during the block."""
    touches = Touches()
    async with AsyncExitStack() as stack:
        reading: list[asyncio.Task[None]] = []
        for node in nodes:
            reader, writer = await asyncio.open_connection(HOST, node.port, limit=LINE_BYTES)
            stack.callback(writer.close)
            writer.write(b"MONITOR\r\n")
            assert (await reader.readline()).startswith(b"+OK")
            reading.append(asyncio.create_task(_read(reader, touches)))
        yield touches
        for node in nodes:
            await asyncio.to_thread(node.run, "ECHO", END)
        await asyncio.gather(*reading)


END: Final = "the end of the monitored time"


async def _read(reader: asyncio.StreamReader, touches: Touches) -> None:
    while line := await reader.readline():
        if END.encode() in line:
            return
        touches.read(line)
