"""One process of a race for approvals: it answers `once`, as its person, every request that is its to answer.

For each line `first end` on stdin it answers the requests from `first` to `end`, and prints `done`. What it is told is in
its file, one JSON array a line: `[request, outcome]`, the outcome null while more people are needed.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from ledger import Ledger, LedgerError, Session, StoreError
from tests.support.waiting import pause

T = TypeVar("T")

ANSWERED_AT_ONCE_COUNT: Final = 250

PEOPLE: Final = ("ann", "ANN", "bob", "eve")
"""The names under which the processes answer; the first two are one person with two clients."""


def session_of(request: int, sessions_count: int) -> str:
    return f"ses_{request % sessions_count}"


def needed_in(session: str) -> int:
    """Return how many people must approve the requests of a session: two, or in every second session three."""
    return 2 + int(session.removeprefix("ses_")) % 2


def id_of(request: int) -> str:
    return f"r{request}"


def is_alone(request: int) -> bool:
    """Return whether one person alone answers a request, by both clients at once; every third."""
    return request % 3 == 0


class Approver:
    """Approver `number`, with a connection of its own."""

    def __init__(self, ledger: Ledger, number: int, sessions_count: int, file: Path) -> None:
        self._ledger = ledger
        self._number = number
        self._sessions_count = sessions_count
        self._chance = random.Random(number)
        self._sessions: dict[str, Session] = {}
        self._file = file.open("a")

    async def approve_all(self, first: int, end: int) -> None:
        """Answer in nearly the same order as all others, so that all answer the same requests at the same time."""
        mine = [one for one in range(first, end) if self._number < 2 or not is_alone(one)]
        for at in range(0, len(mine), ANSWERED_AT_ONCE_COUNT):
            some = mine[at : at + ANSWERED_AT_ONCE_COUNT]
            self._chance.shuffle(some)
            await asyncio.gather(*map(self._approve, some))
        self._file.flush()

    async def _approve(self, request: int) -> None:
        name = session_of(request, self._sessions_count)
        if name not in self._sessions:
            self._sessions[name] = await patiently(partial(self._ledger.attach, name))
        answer = partial(self._sessions[name].reply, id_of(request), "once", actor=PEOPLE[self._number])
        result = await patiently(answer)
        self._file.write(f"{json.dumps([request, result.outcome])}\n")


async def patiently(work: Callable[[], Awaitable[T]]) -> T:
    """Return the result of work, which is tried again while the server does not answer in time."""
    while True:
        try:
            return await work()
        except StoreError:
            await pause()


def say(word: str) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


async def contend(url: str, number: int, sessions_count: int, file: Path) -> None:
    async with Ledger.connect(url, entry_points=False) as ledger:
        approver = Approver(ledger, number, sessions_count, file)
        say("ready")
        while line := await asyncio.to_thread(sys.stdin.readline):
            first, end = map(int, line.split())
            await approver.approve_all(first, end)
            say("done")


def main(url: str, number: str, sessions_count: str, file: str) -> None:
    # Nobody reads stderr before the end, and a full pipe would stop the process.
    logging.disable()
    try:
        asyncio.run(contend(url, int(number), int(sessions_count), Path(file)))
    except LedgerError as error:
        sys.exit(f"approver {number}: {error.code}: {error}")


if __name__ == "__main__":
    main(*sys.argv[1:])
