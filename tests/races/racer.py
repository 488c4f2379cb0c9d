"""One process of a race: it asks its share of all requests, then answers every request as fast as it can.

It prints `asked` when all its requests are pending, answers the next portion after each line on stdin and prints
`answered` after that, and prints `done` after the last outcome. The outcomes it received, as asker and as approver, are then in its file, one JSON array a line:
`[role, session, request, outcome, reply, by, at in ms]`.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from pathlib import Path
from typing import Any, Final

from ledger import AlreadyAnsweredError, Ledger, LedgerError, RefusalError, Result, Session
from ledger.core.policy import ReplyKind

ANSWERED_AT_ONCE_COUNT: Final = 250

Told = tuple[str, str, str, str | None, str | None, str, int]


class Racer:
    """Racer `number` of `racers`; answers `once` when even and `reject` when odd."""

    def __init__(self, ledger: Ledger, number: int, requests: list[tuple[str, str]]) -> None:
        self._ledger = ledger
        self._name = f"racer{number}"
        self._reply: ReplyKind = "reject" if number % 2 else "once"
        self._requests = requests
        self._sessions: dict[str, Session] = {}
        self._chance = random.Random(number)
        self.told: list[Told] = []

    async def attach(self) -> None:
        names = sorted({session for session, _ in self._requests})
        handles = await asyncio.gather(*(self._ledger.attach(name) for name in names))
        self._sessions = dict(zip(names, handles, strict=True))

    async def ask(self, mine: list[tuple[str, str]]) -> list[asyncio.Task[None]]:
        """Ask, and wait for the answers in the tasks that are returned."""
        asked = [self._sessions[session].submit("bash", [request], request_id=request) for session, request in mine]
        await asyncio.gather(*asked)
        return [asyncio.create_task(self._wait(session, request)) for session, request in mine]

    async def _wait(self, session: str, request: str) -> None:
        try:
            result = await self._sessions[session].ask("bash", [request], request_id=request)
        except RefusalError:
            result = await self._sessions[session].wait(request)
        self._note("asker", result)

    async def answer_all(self) -> None:
        """Answer portion by portion, each begun with all others, so that all want the same requests at the same time."""
        for first in range(0, len(self._requests), ANSWERED_AT_ONCE_COUNT):
            await asyncio.to_thread(sys.stdin.readline)
            some = self._requests[first : first + ANSWERED_AT_ONCE_COUNT]
            self._chance.shuffle(some)
            await asyncio.gather(*(self._answer(session, request) for session, request in some))
            say("answered")

    async def _answer(self, session: str, request: str) -> None:
        try:
            self._note("approver", await self._sessions[session].reply(request, self._reply, actor=self._name))
        except AlreadyAnsweredError as error:
            said = error.data
            self.told.append(
                ("approver", session, request, said["outcome"], said["reply"], said["by"], said["at_ms"]),
            )

    def _note(self, role: str, result: Result) -> None:
        self.told.append(
            (role, result.session, result.request_id, result.outcome, result.reply, result.by.name, result.at_ms)
        )


def say(word: str) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


async def race(url: str, number: int, racers: int, requests: list[tuple[str, str]]) -> list[Told]:
    """Run one racer, and return the outcomes its calls received."""
    async with Ledger.connect(url, entry_points=False) as ledger:
        racer = Racer(ledger, number, requests)
        await racer.attach()
        waiting = await racer.ask(requests[number::racers])
        say("asked")
        await racer.answer_all()
        await asyncio.gather(*waiting)
        return racer.told


def main(url: str, number: str, racers: str, requests: str, file: str) -> None:
    listed: Any = [tuple(one) for one in json.loads(Path(requests).read_text())]
    try:
        told = asyncio.run(race(url, int(number), int(racers), listed))
    except LedgerError as error:
        sys.exit(f"racer {number}: {error.code}: {error}")
    Path(file).write_text("".join(f"{json.dumps(one)}\n" for one in told))
    say("done")


if __name__ == "__main__":
    main(*sys.argv[1:])
