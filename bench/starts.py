"""New processes: whole commands beside the libraries alone, a session that is opened, and its first command.

`python -m bench.starts URL SESSION` is such a process; it prints the milliseconds of both.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import Sequence
from itertools import count

from bench.place import ALLOW, Place, Probe, child, run
from bench.report import Asked, Fsync, timed
from ledger import Ledger

LIBRARIES = ("-c", "import click, msgspec, redis.asyncio")


class Starts(Probe):
    """One process at a time, the kinds in turn."""

    name = "starts"

    async def start(self, place: Place) -> None:
        self._place = place
        self._numbers = count()
        self._home = place.stack.enter_context(tempfile.TemporaryDirectory(prefix="pl-bench-"))
        await place.ledger.session("starts", rules=ALLOW)
        cli, url = ("-m", "workers.cli"), ("--url", place.url)
        self._commands = {
            "libraries": LIBRARIES,
            "ask": (*cli, "ask", "starts", "bash", "git status", *url),
            "pending": (*cli, "pending", *url),
        }
        for command in self._commands.values():
            await self._milliseconds(command)

    async def round(self, fsync: Fsync) -> None:
        for _ in range(self.size(3, 1)):
            for figure, command in self._commands.items():
                self._rounds.add(fsync, figure, await self._milliseconds(command))
            async with child("bench.starts", self._place.url, f"starts-{next(self._numbers)}") as newcomer:
                opened, judged = map(float, (await newcomer.line()).split())
            self._rounds.add(fsync, "opened", opened)
            self._rounds.add(fsync, "judged", judged)

    async def _milliseconds(self, command: Sequence[str]) -> float:
        return (await run(*command, environment={"PERMISSION_LEDGER_HOME": self._home})).seconds * 1e3

    def asked(self) -> list[Asked]:
        return [
            Asked("opening a session in a new process", "everysec", "opened", "ms", at_most=8),
            Asked("… its first command, judged", "everysec", "judged", "ms", at_most=6),
            Asked("`ask` that a rule allows, the whole process", "everysec", "ask", "ms", "libraries", at_most=1.7),
            Asked("`pending`, the whole process", "everysec", "pending", "ms", "libraries", at_most=1.6),
        ]


async def main(url: str, name: str) -> None:
    async with Ledger.connect(url, actor="bench", entry_points=False) as ledger:
        began = time.perf_counter()
        session = await ledger.session(name, rules=ALLOW)
        opened = time.perf_counter() - began
        judged = await timed(session.ask, "bash", ["git status"])
        print(opened * 1e3, judged * 1e3, flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
