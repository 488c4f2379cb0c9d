"""One process of a contest for claims. For each line `first end` on stdin it claims the requests from `first` to `end`.

It prints `ready` once, and `done` after each line. What it is told is in its file at once, one JSON array a line:
`[request, runner]`, the runner null for a request that new rules deny. It may be killed and started again with the same
line: what its file has already is not claimed again.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
import sys
from pathlib import Path
from typing import Final

from ledger import AlreadyClaimedError, DeniedError, FrozenError, Ledger, LedgerError, Runner, Session, StoreError
from tests.support.waiting import pause

CLAIMED_AT_ONCE_COUNT: Final = 250

Told = tuple[int, str | None]


def session_of(request: int, sessions_count: int) -> str:
    return f"ses_{request % sessions_count}"


def id_of(request: int) -> str:
    return f"r{request}"


def is_risky(request: int) -> bool:
    """Return whether the rules deny the request's call for a while; one in eight."""
    return request % 8 == 5


def command_of(request: int) -> str:
    return f"{'rm' if is_risky(request) else 'make'} {request}"


def runner_of(request: int, claimer: int) -> str:
    """Return the name under which a claimer wants a request: that of all, of two, or its own (one half of them)."""
    if request % 4 == 0:
        return "all"
    return f"pair-{claimer // 2}" if request % 4 == 1 else f"claimer-{claimer}"


def told_in(file: Path) -> list[Told]:
    """Return what a claimer was told; a line that it was killed in is none."""
    lines = file.read_text().splitlines(keepends=True) if file.exists() else []
    return [(request, runner) for request, runner in (json.loads(line) for line in lines if line.endswith("\n"))]


class Claimer:
    """Claimer `number`; it writes what it is told to a file before it would run anything."""

    def __init__(self, ledger: Ledger, number: int, sessions_count: int, file: Path) -> None:
        self._ledger = ledger
        self._number = number
        self._sessions_count = sessions_count
        self._chance = random.Random(number)
        self._known = {request for request, _ in told_in(file)}
        _end_the_last_line(file)
        self._file = file.open("a", buffering=1)
        self._sessions: dict[str, Session] = {}

    async def claim_all(self, first: int, end: int) -> None:
        """Claim in nearly the same order as all others, so that all want the same calls at the same time."""
        left = [request for request in range(first, end) if request not in self._known]
        for at in range(0, len(left), CLAIMED_AT_ONCE_COUNT):
            some = left[at : at + CLAIMED_AT_ONCE_COUNT]
            self._chance.shuffle(some)
            await asyncio.gather(*(self._claim(request) for request in some))

    async def _claim(self, request: int) -> None:
        while True:
            try:
                winner = await self._attempt(request)
            except (FrozenError, StoreError):
                await pause()
            else:
                self._file.write(f"{json.dumps([request, winner])}\n")
                return

    async def _attempt(self, request: int) -> str | None:
        """Return the runner that may run the call; None if nobody may."""
        session = await self._session(session_of(request, self._sessions_count))
        runner = Runner(runner_of(request, self._number), id_of(request))
        try:
            if request % 2:
                return (await session.claim(id_of(request), runner=runner)).runner
            asked = await session.submit("bash", [command_of(request)], request_id=id_of(request), claim=runner)
        except AlreadyClaimedError as error:
            return str(error.data["runner"])
        except DeniedError:
            return None
        if asked.outcome == "denied":
            return None
        assert asked.settled is not None
        assert asked.settled.claim is not None, "an ask with a claim is allowed with it, or not at all"
        return asked.settled.claim.runner

    async def _session(self, name: str) -> Session:
        if name not in self._sessions:
            self._sessions[name] = await self._ledger.attach(name)
        return self._sessions[name]


def _end_the_last_line(file: Path) -> None:
    """Cut a line off in which the process was killed."""
    if file.exists():
        lines = file.read_text().splitlines(keepends=True)
        file.write_text("".join(line for line in lines if line.endswith("\n")))


def say(word: str) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


async def contend(url: str, number: int, sessions_count: int, file: Path) -> None:
    async with Ledger.connect(url, entry_points=False) as ledger:
        claimer = Claimer(ledger, number, sessions_count, file)
        say("ready")
        while line := await asyncio.to_thread(sys.stdin.readline):
            first, end = map(int, line.split())
            await claimer.claim_all(first, end)
            say("done")


def main(url: str, number: str, sessions_count: str, file: str) -> None:
    # Nobody reads stderr before the end, and a full pipe would stop the process.
    logging.disable()
    try:
        asyncio.run(contend(url, int(number), int(sessions_count), Path(file)))
    except LedgerError as error:
        sys.exit(f"claimer {number}: {error.code}: {error}")


if __name__ == "__main__":
    main(*sys.argv[1:])
