"""One process of a contest for claims: it claims every request.

What it is told is in its file at once, one JSON array a line: `[request, runner]`, the runner null for a request that new
rules deny. It may be killed and started again with the same line: what its file has already is not claimed again.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from ledger import AlreadyClaimedError, DeniedError, FrozenError, Runner, StoreError
from tests.races.contender import Seat, id_of, run
from tests.support.waiting import pause

Told = tuple[int, str | None]


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
    """Claimer of a seat; it writes what it is told to a file before it would run anything."""

    def __init__(self, seat: Seat, file: Path) -> None:
        self._seat = seat
        self._known = {request for request, _ in told_in(file)}
        _end_the_last_line(file)
        self._file = file.open("a", buffering=1)

    async def contend(self, first: int, end: int) -> None:
        await self._seat.in_turns((one for one in range(first, end) if one not in self._known), self._claim)

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
        session = await self._seat.session_of(request)
        runner = Runner(runner_of(request, self._seat.number), id_of(request))
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


def _end_the_last_line(file: Path) -> None:
    """Cut a line off in which the process was killed."""
    if file.exists():
        lines = file.read_text().splitlines(keepends=True)
        file.write_text("".join(line for line in lines if line.endswith("\n")))


def main(*words: str) -> None:
    run(Claimer, *words)


if __name__ == "__main__":
    main(*sys.argv[1:])
