"""A year of history: the questions while all of it is in the server, and when only its last month is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from bench.growth.filling import OWN_NOTES, fill, filled_count, tell, until_projected
from bench.growth.lives import EVENTS_COUNT
from bench.growth.questions import MEASURED_VIEWS
from bench.growth.restarts import START_SECONDS, Restarts, until_rewritten
from bench.growth.sealed import HOT_MONTH, Sealing
from bench.growth.server_memory import resident_bytes, server_memory, server_name, used_bytes
from bench.growth.serving import Serving
from bench.place import Place, child, place_at
from ledger.stores.embedded import embedded_server

if TYPE_CHECKING:
    from pathlib import Path

    from bench.growth.rows import Figures

BEFORE: Final = "year "
"""The beginning of the names of the rows while nothing is sealed."""

SERVER_FOLDER: Final = "year"
ARCHIVE_FOLDER: Final = "year-archive"
SEALED_NOTE: Final = "sealed"


class Year:
    """The part: at each size all questions, then all sessions sealed but for one month, and all questions again."""

    def __init__(
        self, folder: Path, figures: Figures, pending: int, repetitions: int, jobs: int, *, quick: bool
    ) -> None:
        self._folder = folder / SERVER_FOLDER
        self._archive = folder / ARCHIVE_FOLDER
        self._figures = figures
        self._pending = pending
        self._repetitions = repetitions
        self._jobs = jobs
        self._quick = quick
        self._empty_bytes = self._used_before = 0

    async def measure(self, size: int) -> str:
        """Measure a size; return the name of the server. A projector runs while the sessions are written.

        Sessions of a smaller size, also of an earlier run over this folder, are sealed already. Raises UsageError where
        there are none beyond them.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        server = embedded_server(self._folder, start_timeout_s=START_SECONDS)
        async with server, place_at(server.url, quick=self._quick) as place:
            await place.set_fsync("everysec")
            store = place.ledger.store
            first = int((await store.admin.notes(OWN_NOTES)).get(SEALED_NOTE, b"0"))
            if first >= size:
                raise click.UsageError(f"the folder has a year of {first:,} sessions already; give larger sizes")
            if not await filled_count(store):
                self._empty_bytes = self._used_before = await used_bytes(place)
            async with child("workers.cli", "worker", "projector", "--url", place.url):
                await fill(place, size, self._pending, self._jobs)
                await until_projected(store)
                await self._nothing_sealed(place, size, first)
                await self._hot_month(place, size, first)
                await store.admin.note(OWN_NOTES, SEALED_NOTE, str(size).encode())
            name = await server_name(place)
        restarts = Restarts(self._folder, self._figures, self._empty_bytes, quick=self._quick, before=HOT_MONTH.before)
        await restarts.measure(size)
        return name

    async def _nothing_sealed(self, place: Place, size: int, first: int) -> None:
        """Ask while what came since the size before is all in the server."""
        tell(f"{size:,} sessions, nothing sealed: commands, calls, routes")
        used = await used_bytes(place) - self._used_before
        self._figures.add(BEFORE + "memory", size, used / ((size - first) * EVENTS_COUNT))
        await until_rewritten(place)
        await Serving(place, self._figures, size, self._pending, self._repetitions, before=BEFORE).measure()

    async def _hot_month(self, place: Place, size: int, first: int) -> None:
        tell(f"{size:,} sessions: eleven of twelve are sealed")
        sealing = Sealing(
            *(place, self._figures, self._archive, self._pending, HOT_MONTH), repetitions=self._repetitions
        )
        await sealing.measure(size, first)
        await until_projected(place.ledger.store)
        self._used_before = await used_bytes(place)
        found = await server_memory(place, self._empty_bytes)
        self._figures.add(HOT_MONTH.before + "memory", size, found.total / 1e6)
        self._figures.add(HOT_MONTH.before + "bytes", size, found.total / (size * EVENTS_COUNT))
        self._figures.add(HOT_MONTH.before + "resident", size, await resident_bytes(place) / 1e6)
        for view in MEASURED_VIEWS:
            self._figures.add(f"{HOT_MONTH.before}view {view}", size, found.by_view[view] / (size * EVENTS_COUNT))
        files = sum(file.stat().st_size for file in self._archive.rglob("*") if file.is_file())
        sealed = sum(1 for _ in HOT_MONTH.sealed(self._pending, size)) * EVENTS_COUNT
        self._figures.add("archive bytes", size, files / sealed)
