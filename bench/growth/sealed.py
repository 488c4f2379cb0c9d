"""A ledger of which many sessions are sealed: what sealing costs, what it leaves, and the questions asked again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bench.growth.filling import tell, until_projected
from bench.growth.lives import EVENTS_COUNT, OPEN_EVERY_COUNT, session_of
from bench.growth.restarts import until_rewritten
from bench.growth.server_memory import used_bytes
from bench.growth.serving import WARM_COUNT, Serving
from bench.place import Ended, Place, run
from projections.queries import totals

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from bench.growth.rows import Figures

AT_ONCE_COUNT: Final = 20_000
"""Sessions of one command, whose names must fit on its line."""


HOT_MONTH: Final = "hot month "
"""The beginning of the names of the rows."""

STAY_COUNT: Final = OPEN_EVERY_COUNT
"""So many of each year's sessions stay: one month of twelve. What was left open a month ago is sealed, too."""

YEAR_COUNT: Final = 12 * OPEN_EVERY_COUNT

IDLE: Final = "1ms"
"""The time without an event after which an open session may be sealed: those of the bench have just been written."""


class Sealing:
    """The sessions of one year are sealed, but for those of a month. A projector runs meanwhile."""

    def __init__(
        self, place: Place, figures: Figures, archive: Path, pending: int, size: int, *, repetitions: int
    ) -> None:
        self._place = place
        self._figures = figures
        self._archive = archive
        self._size = size
        self._repetitions = repetitions
        self._serving = Serving(place, figures, size, pending, repetitions, before=HOT_MONTH)
        self._numbers = [number for number in range(pending, size) if number % YEAR_COUNT >= STAY_COUNT]

    async def seal(self) -> None:
        """Seal the sessions; wait until the work that this leaves is done."""
        await self._seal([session_of(number) for number in self._numbers])
        # A sealing of eleven months at once leaves the projector and the server work that a day's does not.
        await until_projected(self._place.ledger.store)
        await until_rewritten(self._place)

    async def read(self) -> None:
        """Read sealed sessions, by a command and by a process that runs."""
        await self._serving.command("show sealed", "show", session_of(self._numbers[0]))
        # Spread over the files of the archive; each is read once.
        spread = self._numbers[:: max(1, len(self._numbers) // (self._repetitions + WARM_COUNT))]
        await self._serving.reads([session_of(number) for number in spread])
        await self._verify()

    def event_bytes(self) -> float:
        """Return what a sealed event takes in the archive."""
        files = sum(file.stat().st_size for file in self._archive.rglob("*") if file.is_file())
        return files / (len(self._numbers) * EVENTS_COUNT)

    async def _seal(self, sessions: Sequence[str]) -> None:
        before = await used_bytes(self._place)
        spent = 0.0
        for start in range(0, len(sessions), AT_ONCE_COUNT):
            spent += await self._processor_seconds(sessions[start : start + AT_ONCE_COUNT])
            tell(f"{min(start + AT_ONCE_COUNT, len(sessions)):,} of {len(sessions):,} sessions sealed")
        freed = before - await used_bytes(self._place)
        self._figures.add(HOT_MONTH + "sealing", self._size, len(sessions) * EVENTS_COUNT / spent)
        self._figures.add(HOT_MONTH + "freed", self._size, freed / len(sessions) / EVENTS_COUNT)

    async def _verify(self) -> None:
        """Verify all streams, those in the archive too, with as many processes as there are cores."""
        events = (await totals(self._place.ledger.store)).events
        verified = await self._command("verify", "--all", "--json")
        self._figures.add(HOT_MONTH + "verify", self._size, events / verified.seconds)

    async def _processor_seconds(self, sessions: Sequence[str]) -> float:
        """Seal these sessions; return the processor time of the command."""
        words = ("archive", "--to", str(self._archive), "--older-than", IDLE)
        return (await self._command(*words, *sessions)).processor_seconds

    async def _command(self, name: str, *words: str) -> Ended:
        return await run("-m", "workers.cli", name, "--url", self._place.url, *words)
