"""`verify --all` and `rebuild` as commands with one process and with two: the processor time of all their processes."""

from __future__ import annotations

from typing import Final

from bench.growth.rows import Figures
from bench.place import Place, run
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
            command = ("-m", "workers.cli", *words, "--url", self._place.url, "--jobs")
            alone, shared = [(await run(*command, str(jobs))).processor_seconds for jobs in JOBS]
            self._figures.add(f"{name} processor", self._size, alone / events * 1e6)
            self._figures.add(f"{name} with two", self._size, shared / alone)
