"""`verify --all` and `rebuild` as commands with one process and with two: the processor time of all their processes."""

from __future__ import annotations

import asyncio
import os
import resource
import sys
from typing import Final

from bench.growth.rows import Figures
from bench.place import ROOT, Place
from projections.queries import totals

COMMANDS: Final = {"verify": ("verify", "--all"), "rebuild": ("rebuild",)}
JOBS: Final = (1, 2)


class Sharing:
    """Both commands at one size. The start of the processes counts, so that a small ledger says little."""

    def __init__(self, place: Place, figures: Figures, size: int) -> None:
        self._place = place
        self._figures = figures
        self._size = size

    async def measure(self) -> None:
        events = (await totals(self._place.ledger.store)).events
        for name, words in COMMANDS.items():
            alone, shared = [await self._processor_seconds(*words, "--jobs", str(jobs)) for jobs in JOBS]
            self._figures.add(f"{name} processor", self._size, alone / events * 1e6)
            self._figures.add(f"{name} with two", self._size, shared / alone)

    async def _processor_seconds(self, *words: str) -> float:
        """Return the processor time of a command and the processes that it started and waited for."""
        before = _of_children()
        nothing = asyncio.subprocess.DEVNULL
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "workers.cli", *words, "--url", self._place.url),
            cwd=ROOT,
            env=dict(os.environ),
            stdin=nothing,
            stdout=nothing,
            stderr=asyncio.subprocess.PIPE,
        )
        _, said = await process.communicate()
        if process.returncode != 0:
            raise RuntimeError(f"`{' '.join(words)}` ended with {process.returncode}: {said.decode()}")
        return _of_children() - before


def _of_children() -> float:
    """Return the processor time (seconds) of all processes that this one has waited for, and of theirs."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
