"""A ledger of which many sessions are sealed: what sealing costs, what it leaves, and the questions asked again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from bench.growth.filling import tell, until_projected
from bench.growth.lives import EVENTS_COUNT, OPEN_EVERY_COUNT, session_of
from bench.growth.restarts import until_rewritten
from bench.growth.server_memory import used_bytes
from bench.growth.serving import WARM_COUNT, Serving
from bench.place import Ended, Place, run
from projections.queries import totals

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from bench.growth.rows import Figures

AT_ONCE_COUNT: Final = 20_000
"""Sessions of one command, whose names must fit on its line."""


class Share(NamedTuple):
    """The sessions that stay in the server: the first few of so many. `before` is the beginning of the names of the rows."""

    before: str
    stay_count: int
    of_count: int

    def sealed(self, first: int, end: int) -> Iterable[int]:
        return (number for number in range(first, end) if number % self.of_count >= self.stay_count)


HALF: Final = Share("half sealed ", 1, 2)
HOT_MONTH: Final = Share("hot month ", OPEN_EVERY_COUNT, 12 * OPEN_EVERY_COUNT)
"""One month of twelve stays. Of either kind the same share is open, and what was left open a month ago is sealed, too."""

IDLE: Final = "1ms"
"""The time without an event after which an open session may be sealed: those of the bench have just been written."""


class Sealing:
    """Sessions are sealed but for a share, at each size."""

    def __init__(
        self, place: Place, figures: Figures, archive: Path, pending: int, share: Share, *, repetitions: int
    ) -> None:
        self._place = place
        self._figures = figures
        self._archive = archive
        self._pending = pending
        self._share = share
        self._repetitions = repetitions

    async def measure(self, size: int, first: int) -> None:
        """Seal sessions from the first on, and ask. A projector runs meanwhile."""
        await self.seal(size, first)
        await self._serving(size).measure()
        await self.read(size, first)

    async def seal(self, size: int, first: int) -> None:
        """Seal sessions from the first on; wait until the work that this leaves is done."""
        await self._seal([session_of(number) for number in self._numbers(size, first)], size)
        # A sealing of eleven months at once leaves the projector and the server work that a day's does not.
        await until_projected(self._place.ledger.store)
        await until_rewritten(self._place)

    async def read(self, size: int, first: int) -> None:
        """Read sealed sessions, by a command and by a process that runs."""
        numbers = self._numbers(size, first)
        serving = self._serving(size)
        await serving.command("show sealed", "show", session_of(numbers[0]))
        # Spread over the files of the archive; each is read once.
        spread = numbers[:: max(1, len(numbers) // (self._repetitions + WARM_COUNT))]
        await serving.reads([session_of(number) for number in spread])
        await self._verify(size)

    def _serving(self, size: int) -> Serving:
        settings = (self._place, self._figures, size, self._pending, self._repetitions)
        return Serving(*settings, before=self._share.before)

    def event_bytes(self, size: int) -> float:
        """Return what a sealed event takes in the archive, of which no session is of an earlier size."""
        files = sum(file.stat().st_size for file in self._archive.rglob("*") if file.is_file())
        return files / (len(self._numbers(size, 0)) * EVENTS_COUNT)

    def _numbers(self, size: int, first: int) -> list[int]:
        return list(self._share.sealed(max(first, self._pending), size))

    async def _seal(self, sessions: Sequence[str], size: int) -> None:
        before = await used_bytes(self._place)
        spent = 0.0
        for start in range(0, len(sessions), AT_ONCE_COUNT):
            spent += await self._processor_seconds(sessions[start : start + AT_ONCE_COUNT])
            tell(f"{min(start + AT_ONCE_COUNT, len(sessions)):,} of {len(sessions):,} sessions sealed")
        freed = before - await used_bytes(self._place)
        self._figures.add(self._share.before + "sealing", size, len(sessions) * EVENTS_COUNT / spent)
        self._figures.add(self._share.before + "freed", size, freed / len(sessions) / EVENTS_COUNT)

    async def _verify(self, size: int) -> None:
        """Verify all streams, those in the archive too, with as many processes as there are cores."""
        events = (await totals(self._place.ledger.store)).events
        verified = await self._command("verify", "--all", "--json")
        self._figures.add(self._share.before + "verify", size, events / verified.seconds)

    async def _processor_seconds(self, sessions: Sequence[str]) -> float:
        """Seal these sessions; return the processor time of the command."""
        words = ("archive", "--to", str(self._archive), "--older-than", IDLE)
        return (await self._command(*words, *sessions)).processor_seconds

    async def _command(self, name: str, *words: str) -> Ended:
        return await run("-m", "workers.cli", name, "--url", self._place.url, *words)
