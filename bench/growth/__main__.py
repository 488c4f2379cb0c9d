"""`python -m bench.growth`: the same questions at several sizes of one ledger, and how each row grows.

The ledger is filled through the Python API, and filled on from size to size. With `--folder` it is kept, so that a
later run with larger sizes goes on from it.
"""

from __future__ import annotations

import asyncio
import os
import platform
import tempfile
import time
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
from bench.growth.rows import Figures, GrowthRun, print_rows, write_rows
from bench.growth.sealed import HalfSealed
from bench.growth.server_memory import server_memory, used_bytes
from bench.growth.serving import Serving
from bench.growth.sharing import Sharing
from bench.growth.working import Working
from bench.place import Place, child, place_at
from ledger.stores.embedded import embedded_server
from projections.queries import totals

SIZES: Final = (1_000, 10_000)
SIZES_QUICK: Final = (20, 40)
PENDING_COUNT: Final = 100
"""Sessions that wait for a person, the same at every size, so that a page of them is full at each."""

START_SECONDS: Final = 60.0
REWRITE_LOOK_MS: Final = 100


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
        with tempfile.TemporaryDirectory() as folder:
            async with embedded_server(Path(folder)) as server, place_at(server.url, quick=self._quick) as place:
                await self._begin(place)
                if part == "sealed":
                    await self._half_sealed(place, Path(folder) / "archive")
                elif part == "crowds":
                    await Crowds(place, self.figures, self._repetitions).measure()
                else:
                    await Costs(place, self.figures).measure()

    async def _half_sealed(self, place: Place, archive: Path) -> None:
        half = HalfSealed(place, self.figures, archive, self._pending, repetitions=self._repetitions, jobs=self._jobs)
        for size in self._sizes:
            await half.measure(size)
            self.on_size()

    async def _begin(self, place: Place) -> None:
        info = await place.info("server")
        self.server = f"{info.get('server_name', 'redis')} {info.get('valkey_version', info['redis_version'])}"
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
        tell(f"{size:,} sessions: restart")
        await self._restart("restart", size, rewritten_with_preamble="no")
        await self._restart("restart rewritten", size, rewritten_with_preamble="yes")
        await self._restart("restart in RDB", size, rewritten_with_preamble=None)

    async def _restart(self, row: str, size: int, *, rewritten_with_preamble: str | None) -> None:
        """Time a start of the server; afterwards it writes its file anew for the next one, in one form or the other."""
        began = time.perf_counter()
        server = embedded_server(self._folder, start_timeout_s=START_SECONDS)
        async with server:
            self.figures.add(row, size, time.perf_counter() - began)
            async with place_at(server.url, quick=self._quick) as place:
                if rewritten_with_preamble is None:
                    events = (await totals(place.ledger.store)).events
                    self.figures.add("memory restarted", size, (await used_bytes(place) - self._empty_bytes) / events)
                    return
                await place.floor.send("CONFIG", "SET", "aof-use-rdb-preamble", rewritten_with_preamble)
                await place.floor.send("BGREWRITEAOF")
                clock = place.ledger.store.clock
                while set(await _rewriting(place)) != {"0"}:
                    await clock.wait_until(clock.now_ms() + REWRITE_LOOK_MS)

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


async def _rewriting(place: Place) -> tuple[str, str]:
    """Return whether the server writes its file anew, and whether it is about to."""
    told = await place.info("persistence")
    return told["aof_rewrite_in_progress"], told["aof_rewrite_scheduled"]


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
def main(
    *,
    sizes: tuple[int, ...] | None,
    only: tuple[Part, ...],
    repetitions: int | None,
    jobs: int | None,
    folder: Path | None,
    quick: bool,
    file: Path | None,
) -> None:
    """Ask the same of ledgers with more and more sessions of ten events each, and print how each answer grows."""
    parts = only or PARTS
    repetitions = repetitions or (1 if quick else 5)
    with ExitStack() as stack:
        kept = folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        bench = GrowthBench(
            kept, sizes or (SIZES_QUICK if quick else SIZES), repetitions, jobs or os.cpu_count() or 1, quick=quick
        )
        done: list[Part] = []

        def result() -> GrowthRun:
            return GrowthRun(
                quick=quick,
                repetitions=repetitions,
                server=bench.server,
                python=platform.python_version(),
                processors=os.cpu_count() or 1,
                rows=bench.figures.rows(item for part in done for item in TABLES[part].items()),
            )

        if file is not None:
            bench.on_size = lambda: write_rows(result(), file)
        for part in parts:
            done.append(part)
            asyncio.run(bench.measure(part))
    print_rows(result().rows)
    if file is not None:
        write_rows(result(), file)


if __name__ == "__main__":
    main()
