"""A ledger of which half the sessions are sealed: what sealing costs, what it leaves, and the questions asked again."""

from __future__ import annotations

import asyncio
import os
import resource
import sys
from typing import TYPE_CHECKING, Final

from bench.growth.filling import fill, until_projected
from bench.growth.lives import EVENTS_COUNT, session_of
from bench.growth.serving import Serving
from bench.place import ROOT, Place, child

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from bench.growth.rows import Figures

BEFORE: Final = "half sealed "
"""The beginning of the names of this part's rows."""

AT_ONCE_COUNT: Final = 20_000
"""Sessions of one command, whose names must fit on its line."""


class HalfSealed:
    """The part: every second session that is closed is sealed, at each size."""

    def __init__(
        self, place: Place, figures: Figures, archive: Path, pending: int, *, repetitions: int, jobs: int
    ) -> None:
        self._place = place
        self._figures = figures
        self._archive = archive
        self._pending = pending
        self._repetitions = repetitions
        self._jobs = jobs
        self._sealed = pending | 1

    async def measure(self, size: int) -> None:
        """Fill up to a size, seal what came since the last one, and ask."""
        await fill(self._place, size, self._pending, self._jobs)
        async with child("workers.cli", "worker", "projector", "--url", self._place.url):
            await until_projected(self._place.ledger.store)
            numbers = range(self._sealed, size, 2)
            self._sealed = size | 1
            await self._seal([session_of(number) for number in numbers], size)
            serving = Serving(self._place, self._figures, size, self._pending, self._repetitions, before=BEFORE)
            await serving.measure()
            await serving.command("show sealed", "show", session_of(numbers[0]))

    async def _seal(self, sessions: Sequence[str], size: int) -> None:
        before = await self._used_bytes()
        spent = 0.0
        for start in range(0, len(sessions), AT_ONCE_COUNT):
            spent += await self._processor_seconds(sessions[start : start + AT_ONCE_COUNT])
        freed = before - await self._used_bytes()
        self._figures.add("sealing", size, len(sessions) * EVENTS_COUNT / spent)
        self._figures.add("freed", size, freed / len(sessions) / EVENTS_COUNT)

    async def _used_bytes(self) -> int:
        return int((await self._place.info("memory"))["used_memory"])

    async def _processor_seconds(self, sessions: Sequence[str]) -> float:
        """Seal these sessions; return the processor time of the command."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "workers.cli", "archive", "--to", str(self._archive), "--url", self._place.url),
            *sessions,
            cwd=ROOT,
            env=dict(os.environ),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        _, said = await process.communicate()
        if process.returncode != 0:
            raise RuntimeError(f"`archive` ended with {process.returncode}: {said.decode()}")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
