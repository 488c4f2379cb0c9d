"""`python -m bench`: measurements on this machine, in one run; within a round the floors and the ledger take turns."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

import click

from bench.asks import ConcurrentAppends, LoneAsk, ServerTime
from bench.bridges import Bridges
from bench.deadlines import Deadlines
from bench.flooding import Flood
from bench.gateway import GatewayLoad
from bench.page import keep
from bench.place import Probe, place_at
from bench.policy import PolicySpeed
from bench.rebuild import Rebuild
from bench.report import HEADINGS, Row, Run, cells, print_lines, write_json
from bench.starts import Starts
from bench.trips import Trips
from bench.waiting import Waiting
from ledger.stores.embedded import embedded_server

PROBES: tuple[type[Probe], ...] = (
    LoneAsk,
    ConcurrentAppends,
    ServerTime,
    Starts,
    Trips,
    Rebuild,
    Waiting,
    Deadlines,
    PolicySpeed,
    GatewayLoad,
    Flood,
    Bridges,
)
ROUNDS = 5
ROUNDS_QUICK = 2


async def measure(kind: type[Probe], rounds: int, *, quick: bool) -> tuple[str, list[Row]]:
    """Run all rounds of one part; return the server's name and version, and the rows.

    Each part has a server of its own: on a shared one every append of a part would wake the processes of the others.
    """
    probe = kind(quick=quick)
    with tempfile.TemporaryDirectory() as folder:
        async with embedded_server(Path(folder)) as server, place_at(server.url, quick=quick) as place:
            _tell(f"{probe.name}: preparing")
            await place.set_fsync("everysec")
            await probe.start(place)
            for number in range(rounds):
                for fsync in probe.fsyncs:
                    _tell(f"{probe.name}: round {number + 1} of {rounds}, appendfsync {fsync}")
                    await place.set_fsync(fsync)
                    await probe.round(fsync)
            return await place.server(), probe.rows()


def _tell(text: str) -> None:
    if sys.stderr.isatty():
        print(text, file=sys.stderr)


@click.command()
@click.option("--quick", is_flag=True, help="Smaller numbers, in under a minute; not what the targets are for.")
@click.option("--only", multiple=True, type=click.Choice([kind.name for kind in PROBES]), help="Only this part.")
@click.option(
    "--rounds", type=click.IntRange(1, 100), help=f"Of each part (default: {ROUNDS}; {ROUNDS_QUICK} if quick)."
)
@click.option("--json", "file", type=click.Path(path_type=Path), help="Write the figures to this file, too.")
@click.option("--keep", "is_kept", is_flag=True, help="Keep each part's table for the page of speed when it is whole.")
def main(*, quick: bool, only: tuple[str, ...], rounds: int | None, file: Path | None, is_kept: bool) -> None:
    """Measure the ledger against what its server could do for the simplest possible client."""
    rounds = rounds or (ROUNDS_QUICK if quick else ROUNDS)
    rows: list[Row] = []
    server = ""
    for kind in PROBES:
        if only and kind.name not in only:
            continue
        server, measured = asyncio.run(measure(kind, rounds, quick=quick))
        rows += measured
        if is_kept:
            words = ("python -m bench", *["--quick"] * quick, "--only", kind.name)
            keep(kind.name, " ".join(words), f"{server}, medians of {rounds} rounds", HEADINGS, map(cells, measured))
    print_lines(("name", *HEADINGS), [(row.name, *cells(row)) for row in rows])
    if file is not None:
        write_json(Run(quick=quick, rounds=rounds, server=server, rows=rows), file)


if __name__ == "__main__":
    main()
