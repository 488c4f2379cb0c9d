"""`python -m bench.soak`: agents, people and workers at work while they are killed, then what that left behind."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

import click

from bench.page import keep
from bench.place import place_at
from bench.report import write_json
from bench.soak.day import SPEED, Day
from bench.soak.report import HEADINGS, SoakRun, cells, print_run, told
from bench.soak.soak import Soak
from ledger.stores.embedded import embedded_server

PROBLEMS = 11


async def soak(folder: Path, minutes: float, agents: int, day: Day, seed: int) -> SoakRun:
    async with embedded_server(folder / "server") as server, place_at(server.url, quick=False) as place:
        return await Soak(place, folder, day, agents, seed).run(60 * minutes)


@click.command()
@click.option("--minutes", type=click.FloatRange(0.1, 1440), default=60.0, show_default=True, help="Of work.")
@click.option("--agents", type=click.IntRange(4, 1000), default=40, show_default=True, help="Half of them over HTTP.")
@click.option(
    "--speed", type=click.FloatRange(1, 1000), default=SPEED, show_default=True, help="Of the day's durations."
)
@click.option("--seed", type=int, default=1, show_default=True, help="Of what is redacted.")
@click.option(
    "--folder", type=click.Path(path_type=Path), help="Keep everything here: the server, the archive, the log."
)
@click.option("--json", "file", type=click.Path(path_type=Path), help="Write the results to this file, too.")
@click.option("--keep", "is_kept", is_flag=True, help="Keep the table for the page of speed.")
def main(
    *, minutes: float, agents: int, speed: float, seed: int, folder: Path | None, file: Path | None, is_kept: bool
) -> None:
    """Play a day of work faster, with kills, and check what it leaves. The exit code is 11 if problems were found."""
    with ExitStack() as stack:
        kept = folder or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pl-")))
        kept.mkdir(parents=True, exist_ok=True)
        run = asyncio.run(soak(kept, minutes, agents, Day(speed), seed))
    print_run(run)
    if file is not None:
        write_json(run, file)
    if is_kept:
        found = "; ".join(run.findings) or "no problems found"
        command = f"python -m bench.soak --minutes {minutes:g} --agents {agents}"
        keep("soak", command, "; ".join((*told(run), found)), HEADINGS, map(cells, run.memory))
    sys.exit(PROBLEMS if run.findings else 0)


if __name__ == "__main__":
    main()
