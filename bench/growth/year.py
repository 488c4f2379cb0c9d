"""A year of history: the questions while all of it is in the server, and when only its last month is."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Final, NamedTuple

import click

from bench.growth.filling import OWN_NOTES, fill, filled_count, tell, until_projected
from bench.growth.lives import EVENTS_COUNT
from bench.growth.questions import MEASURED_VIEWS
from bench.growth.restarts import START_SECONDS, Restarts, until_rewritten
from bench.growth.sealed import HOT_MONTH, Sealing
from bench.growth.server_memory import resident_bytes, server_memory, used_bytes
from bench.growth.serving import Serving, in_turn
from bench.place import Place, child, place_at
from ledger.stores.embedded import embedded_server

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from bench.growth.rows import Figures

BEFORE: Final = "year "
"""The beginning of the names of the rows while nothing is sealed."""

SEALED_NOTE: Final = "sealed"
EMPTY_NOTE: Final = "empty_bytes"


def server_folder(folder: Path, size: int) -> Path:
    return folder / f"year-{size}"


class FilledYear(NamedTuple):
    """A ledger of its own with one size of sessions. `empty_bytes` is what the server used before the first of them."""

    size: int
    place: Place
    empty_bytes: int


class Year:
    """The part: at each size all questions, then all sessions sealed but for one month, and all questions again.

    Each size has a server of its own, with a projector. The questions go from server to server in turn, because a
    machine that becomes slower for some minutes would otherwise be told as growth.
    """

    def __init__(
        self, folder: Path, figures: Figures, pending: int, repetitions: int, jobs: int, *, quick: bool
    ) -> None:
        self._folder = folder
        self._figures = figures
        self._pending = pending
        self._repetitions = repetitions
        self._jobs = jobs
        self._quick = quick

    async def measure(self, sizes: Sequence[int]) -> str:
        """Measure all sizes; return the name of the server. Raises UsageError for a year of which much is sealed."""
        async with AsyncExitStack() as stack:
            years = [await self._filled(stack, size) for size in sizes]
            await self._nothing_sealed(years)
            for year in years:
                await self._seal(year)
            await self._hot_month(years)
            name = await years[-1].place.server()
        for year in years:
            restarts = Restarts(
                *(server_folder(self._folder, year.size), self._figures, year.empty_bytes),
                quick=self._quick,
                before=HOT_MONTH,
            )
            await restarts.measure(year.size)
        return name

    async def _filled(self, stack: AsyncExitStack, size: int) -> FilledYear:
        """Start a server, and fill it beside a projector, which stays."""
        folder = server_folder(self._folder, size)
        folder.mkdir(parents=True, exist_ok=True)
        server = await stack.enter_async_context(embedded_server(folder, start_timeout_s=START_SECONDS))
        place = await stack.enter_async_context(place_at(server.url, quick=self._quick))
        await place.set_fsync("everysec")
        store = place.ledger.store
        if SEALED_NOTE in await store.notes(OWN_NOTES):
            raise click.UsageError(f"most of the year in `{folder}` is sealed already; remove that folder")
        if not await filled_count(store):
            await store.note(OWN_NOTES, EMPTY_NOTE, str(await used_bytes(place)).encode())
        empty_bytes = int((await store.notes(OWN_NOTES))[EMPTY_NOTE])
        await stack.enter_async_context(child("workers.cli", "worker", "projector", "--url", place.url))
        await fill(place, size, self._pending, self._jobs)
        await until_projected(store)
        await until_rewritten(place)
        return FilledYear(size, place, empty_bytes)

    def _serving(self, year: FilledYear, before: str) -> Serving:
        return Serving(year.place, self._figures, year.size, self._pending, self._repetitions, before=before)

    async def _nothing_sealed(self, years: Sequence[FilledYear]) -> None:
        for year in years:
            used = await used_bytes(year.place) - year.empty_bytes
            self._figures.add(BEFORE + "memory", year.size, used / (year.size * EVENTS_COUNT))
        tell("nothing sealed: commands, calls, routes")
        await in_turn([self._serving(year, BEFORE) for year in years], self._repetitions)

    def _sealing(self, year: FilledYear) -> Sealing:
        archive = self._folder / f"year-archive-{year.size}"
        return Sealing(*(year.place, self._figures, archive, self._pending, year.size), repetitions=self._repetitions)

    async def _seal(self, year: FilledYear) -> None:
        tell(f"{year.size:,} sessions: eleven of twelve are sealed")
        await year.place.ledger.store.note(OWN_NOTES, SEALED_NOTE, b"1")
        sealing = self._sealing(year)
        await sealing.seal()
        found = await server_memory(year.place, year.empty_bytes)
        events = year.size * EVENTS_COUNT
        self._figures.add(HOT_MONTH + "memory", year.size, found.total / 1e6)
        self._figures.add(HOT_MONTH + "bytes", year.size, found.total / events)
        self._figures.add(HOT_MONTH + "resident", year.size, await resident_bytes(year.place) / 1e6)
        for view in MEASURED_VIEWS:
            self._figures.add(f"{HOT_MONTH}view {view}", year.size, found.by_view[view] / events)
        self._figures.add("archive bytes", year.size, sealing.event_bytes())

    async def _hot_month(self, years: Sequence[FilledYear]) -> None:
        tell("eleven of twelve sealed: commands, calls, routes")
        await in_turn([self._serving(year, HOT_MONTH) for year in years], self._repetitions)
        for year in years:
            await self._sealing(year).read()
