"""The frame of a process that contends with others for requests: what it shares with them, and its conversation.

It prints `ready` once. For each line `first end` on stdin it works on the requests from `first` to `end`, and prints `done`.
"""

from __future__ import annotations

import asyncio
import logging
import random
import sys
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Final, Protocol

from ledger import Ledger, LedgerError, Session

AT_ONCE_COUNT: Final = 250


def session_of(request: int, sessions_count: int) -> str:
    return f"ses_{request % sessions_count}"


def id_of(request: int) -> str:
    return f"r{request}"


class Contending(Protocol):
    """A contender that works on requests by their numbers."""

    async def contend(self, first: int, end: int) -> None: ...


class Seat:
    """The place of contender `number`: its connection, its sessions, and its own nearly equal order of requests."""

    def __init__(self, ledger: Ledger, number: int, sessions_count: int) -> None:
        self.number = number
        self._ledger = ledger
        self._sessions_count = sessions_count
        self._chance = random.Random(number)
        self._sessions: dict[str, Session] = {}

    async def session_of(self, request: int) -> Session:
        name = session_of(request, self._sessions_count)
        if name not in self._sessions:
            self._sessions[name] = await self._ledger.attach(name)
        return self._sessions[name]

    async def in_turns(self, requests: Iterable[int], work: Callable[[int], Awaitable[None]]) -> None:
        """Work in nearly the same order as all others, so that all want the same requests at the same time."""
        left = list(requests)
        for at in range(0, len(left), AT_ONCE_COUNT):
            some = left[at : at + AT_ONCE_COUNT]
            self._chance.shuffle(some)
            await asyncio.gather(*map(work, some))


def run(made: Callable[[Seat, Path], Contending], url: str, number: str, sessions_count: str, file: str) -> None:
    """Run one contender until its stdin ends; it writes what it is told to `file`."""
    # Nobody reads stderr before the end, and a full pipe would stop the process.
    logging.disable()
    try:
        asyncio.run(_converse(made, url, int(number), int(sessions_count), Path(file)))
    except LedgerError as error:
        sys.exit(f"contender {number}: {error.code}: {error}")


async def _converse(
    made: Callable[[Seat, Path], Contending], url: str, number: int, sessions_count: int, file: Path
) -> None:
    async with Ledger.connect(url, entry_points=False) as ledger:
        contender = made(Seat(ledger, number, sessions_count), file)
        _say("ready")
        while line := await asyncio.to_thread(sys.stdin.readline):
            first, end = map(int, line.split())
            await contender.contend(first, end)
            _say("done")


def _say(word: str) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()
