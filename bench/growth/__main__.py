"""`python -m bench.growth`: the same questions at several sizes of one ledger, and how each row grows.

The ledger is filled through the Python API, and filled on from size to size. With `--folder` it is kept, so that a
later run with larger sizes goes on from it.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import click

from bench.growth.costs import Costs
from bench.growth.crowds import Crowds
from bench.growth.filling import fill, filled_count, tell, until_projected
from bench.growth.passes import Passes
from bench.growth.questions import MEASURED_VIEWS, PARTS, TABLES, Part
from bench.growth.restarts import START_SECONDS, Restarts
from bench.growth.rows import HEADINGS, Figures, GrowthRow, cells
from bench.growth.server_memory import server_memory, used_bytes
from bench.growth.serving import Serving
from bench.growth.sharing import Sharing
from bench.growth.working import Working
from bench.growth.year import Year
from bench.page import keep
from bench.place import Place, child, place_at
from bench.report import Run, print_lines, write_json
from ledger.stores.embedded import embedded_server
from projections.queries import totals

SIZES: Final = (1_000, 10_000)
SIZES_QUICK: Final = (20, 40)
PENDING_COUNT: Final = 100
"""Sessions that wait for a person, the same at every size, so that a page of them is full at each."""


class GrowthBench:
    """One run: its settings, and the figures so far."""

    def __init__(self, folder: Path, sizes: Sequence[int], repetitions: int, jobs: int, *, quick: bool) -> None:
        self._folder = folder
        self._sizes = sorted(set(sizes))
        self._pending = min(PENDING_COUNT, self._sizes[0] // 5)
        self._repetitions = repetitions
        self._jobs = jobs
        self._quick = quick
        self._empty_bytes = 0
        self.figures = Figures()
        self.server = ""
        self.on_size: Callable[[], None] = lambda: None
        """Called after each size of the history: a run of hours that breaks off has then left its results."""

    async def measure(self, part: Part) -> None:
        if part == "history":
            for size in self._sizes:
                await self._at_size(size)
                self.on_size()
            return
        if part == "year":
            year = Year(self._folder, self.figures, self._pending, self._repetitions, self._jobs, quick=self._quick)
            self.server = await year.measure(self._sizes)
            return
        with tempfile.TemporaryDirectory() as folder:
            async with embedded_server(Path(folder)) as server, place_at(server.url, quick=self._quick) as place:
                await self._begin(place)
                if part == "crowds":
                    await Crowds(place, self.figures, self._repetitions).measure()
                else:
                    await Costs(place, self.figures).measure()

    async def _begin(self, place: Place) -> None:
        self.server = await place.server()
        await place.set_fsync("everysec")

    async def _at_size(self, size: int) -> None:
        server = embedded_server(self._folder, start_timeout_s=START_SECONDS)
        async with server, place_at(server.url, quick=self._quick) as place:
            await self._begin(place)
            filled = await filled_count(place.ledger.store)
            if filled > size:
                raise click.UsageError(f"the folder has {filled:,} sessions already; give larger sizes")
            if not filled:
                self._empty_bytes = await used_bytes(place)
            await fill(place, size, self._pending, self._jobs)
            async with child("workers.cli", "worker", "projector", "--url", place.url):
                await until_projected(place.ledger.store)
                await self._memory(place, size)
                tell(f"{size:,} sessions: work")
                await Working(place, self.figures, size, self._repetitions).measure()
                tell(f"{size:,} sessions: commands, calls, routes")
                await Serving(place, self.figures, size, self._pending, self._repetitions).measure()
            tell(f"{size:,} sessions: verify, rebuild")
            await Passes(place, self.figures, size, max(1, self._repetitions // 2)).measure()
            tell(f"{size:,} sessions: verify and rebuild with one process and with two")
            await Sharing(place, self.figures, size).measure()
        restarts = Restarts(self._folder, self.figures, self._empty_bytes, quick=self._quick)
        await restarts.measure(size)

    async def _memory(self, place: Place, size: int) -> None:
        events = (await totals(place.ledger.store)).events
        found = await server_memory(place, self._empty_bytes)
        for name, value in (
            ("memory", found.total),
            ("memory log", found.log),
            ("memory views", found.views),
            ("memory feeds", found.feeds),
        ):
            self.figures.add(name, size, value / events)
        for view in MEASURED_VIEWS:
            self.figures.add(f"memory view {view}", size, found.by_view[view] / events)


def _sizes(_: click.Context, __: click.Parameter, text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    try:
        sizes = tuple(int(one) for one in text.split(","))
    except ValueError:
        raise click.BadParameter(f"`{text}` is not numbers with commas between, like 1000,10000") from None
    if min(sizes) < SIZES_QUICK[0]:
        raise click.BadParameter(f"the smallest size is {SIZES_QUICK[0]} sessions")
    return sizes


@click.command()
@click.option("--sizes", callback=_sizes, metavar="N,N", help="Numbers of sessions (default: 1000,10000).")
@click.option("--only", multiple=True, type=click.Choice(PARTS), help="Only this part.")
@click.option("--repetitions", type=click.IntRange(1, 100), help="Of each measurement (default: 5).")
@click.option("--jobs", type=click.IntRange(1, 64), help="Processes that fill (default: one a core).")
@click.option("--folder", type=click.Path(path_type=Path), help="Keep the server's data here, and go on from it.")
@click.option("--quick", is_flag=True, help="Tiny sizes: shows that each row can be measured, and no more.")
@click.option("--json", "file", type=click.Path(path_type=Path), help="Write the figures to this file, too.")
@click.option("--keep", "is_kept", is_flag=True, help="Keep each part's table for the page of speed when it is whole.")
def main(
    *,
    sizes: tuple[int, ...] | None,
    only: tuple[Part, ...],
    repetitions: int | None,
    jobs: int | None,
    folder: Path | None,
    quick: bool,
    file: Path | None,
    is_kept: bool,
) -> None:
    """Ask the same of ledgers with more and more sessions of ten events each, and print how each answer grows."""
    parts = only or PARTS
    repetitions = repetitions or (1 if quick else 5)
    sizes = sizes or (SIZES_QUICK if quick else SIZES)
    with ExitStack() as stack:
        kept = folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        bench = GrowthBench(kept, sizes, repetitions, jobs or os.cpu_count() or 1, quick=quick)
        done: list[Part] = []

        def rows(*parts: Part) -> list[GrowthRow]:
            return bench.figures.rows(item for part in parts for item in TABLES[part].items())

        def write() -> None:
            if file is not None:
                write_json(Run(quick=quick, rounds=repetitions, server=bench.server, rows=rows(*done)), file)

        bench.on_size = write
        for part in parts:
            done.append(part)
            asyncio.run(bench.measure(part))
            if is_kept:
                command = f"python -m bench.growth --only {part} --sizes {','.join(map(str, sizes))}"
                how = f"{bench.server}, medians of {repetitions} repetitions"
                keep(f"growth {part}", command, how, HEADINGS, map(cells, rows(part)))
    print_lines(HEADINGS, map(cells, rows(*done)))
    write()


if __name__ == "__main__":
    main()
