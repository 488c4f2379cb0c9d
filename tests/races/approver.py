"""One process of a race for approvals: it answers `once`, as its person, every request that is its to answer.

What it is told is in its file, one JSON array a line: `[request, outcome]`, the outcome null while more people are needed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from ledger import StoreError
from tests.races.contender import Seat, id_of, run
from tests.support.waiting import pause

T = TypeVar("T")

PEOPLE: Final = ("ann", "ANN", "bob", "eve")
"""The names under which the processes answer; the first two are one person with two clients."""


def needed_in(session: str) -> int:
    """Return how many people must approve the requests of a session: two, or in every second session three."""
    return 2 + int(session.removeprefix("ses_")) % 2


def is_alone(request: int) -> bool:
    """Return whether one person alone answers a request, by both clients at once; every third."""
    return request % 3 == 0


class Approver:
    """Approver of a seat, with a connection of its own."""

    def __init__(self, seat: Seat, file: Path) -> None:
        self._seat = seat
        self._file = file.open("a")

    async def contend(self, first: int, end: int) -> None:
        mine = [one for one in range(first, end) if self._seat.number < 2 or not is_alone(one)]
        await self._seat.in_turns(mine, self._approve)
        self._file.flush()

    async def _approve(self, request: int) -> None:
        session = await patiently(partial(self._seat.session_of, request))
        result = await patiently(partial(session.reply, id_of(request), "once", actor=PEOPLE[self._seat.number]))
        self._file.write(f"{json.dumps([request, result.outcome])}\n")


async def patiently(work: Callable[[], Awaitable[T]]) -> T:
    """Return the result of work, which is tried again while the server does not answer in time."""
    while True:
        try:
            return await work()
        except StoreError:
            await pause()


def main(*words: str) -> None:
    run(Approver, *words)


if __name__ == "__main__":
    main(*sys.argv[1:])
