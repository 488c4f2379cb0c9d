"""`python -m bench`: measurements on this machine, in one run; within a round the floors and the ledger take turns."""

from __future__ import annotations

import asyncio
import os
import platform
import sys
import tempfile
from pathlib import Path

import click

from bench.asks import ConcurrentAppends, LoneAsk, ServerTime
from bench.bridges import Bridges
from bench.claims import Claims
from bench.deadlines import Deadlines
from bench.flooding import Flood
from bench.gateway import GatewayLoad
from bench.place import Probe, place_at
from bench.policy import PolicySpeed
from bench.rebuild import Rebuild
from bench.report import Row, Run, print_table, write_json
from bench.trips import Trips
from bench.waiting import Waiting
from ledger.stores.embedded import embedded_server

PROBES: tuple[type[Probe], ...] = (
    LoneAsk,
    Claims,
    ConcurrentAppends,
    ServerTime,
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


async def measure(names: tuple[str, ...], *, quick: bool) -> Run:
    rounds = ROUNDS_QUICK if quick else ROUNDS
    rows: list[Row] = []
    server = ""
    for kind in PROBES:
        if kind.name in names:
            probe = kind()
            server = await _run(probe, rounds, quick=quick)
            rows += probe.rows()
    return Run(
        quick=quick,
        rounds=rounds,
        server=server,
        python=platform.python_version(),
        processors=os.cpu_count() or 1,
        rows=rows,
    )


async def _run(probe: Probe, rounds: int, *, quick: bool) -> str:
    """Run all rounds of one part; return the server's name and version.

    Each part has a server of its own: on a shared one every append of a part would wake the processes of the others.
    """
    with tempfile.TemporaryDirectory() as folder:
        async with embedded_server(Path(folder)) as server, place_at(server.url, quick=quick) as place:
            info = await place.info("server")
            _tell(f"{probe.name}: preparing")
            await place.set_fsync("everysec")
            await probe.start(place)
            for number in range(rounds):
                for fsync in probe.fsyncs:
                    _tell(f"{probe.name}: round {number + 1} of {rounds}, appendfsync {fsync}")
                    await place.set_fsync(fsync)
                    await probe.round(fsync)
    return f"{info.get('server_name', 'redis')} {info.get('valkey_version', info['redis_version'])}"


def _tell(text: str) -> None:
    if sys.stderr.isatty():
        print(text, file=sys.stderr)


@click.command()
@click.option("--quick", is_flag=True, help="Smaller numbers, in under a minute; not what the targets are for.")
@click.option("--only", multiple=True, type=click.Choice([kind.name for kind in PROBES]), help="Only this part.")
@click.option("--json", "file", type=click.Path(path_type=Path), help="Write the figures to this file, too.")
def main(*, quick: bool, only: tuple[str, ...], file: Path | None) -> None:
    """Measure the ledger against what its server could do for the simplest possible client."""
    run = asyncio.run(measure(only or tuple(kind.name for kind in PROBES), quick=quick))
    print_table(run)
    if file is not None:
        write_json(run, file)


if __name__ == "__main__":
    main()
