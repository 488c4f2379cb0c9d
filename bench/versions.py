"""`python -m bench.versions FOLDER`: lone asks of this checkout against those of another one, in alternating runs.

FOLDER is a checkout of another version, set up with `make setup`. Each side asks in a process of its own, on a server of
its own, because two versions may refuse to share one.
"""

from __future__ import annotations

import asyncio
import os
import platform
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import click

from bench.floor import FloorClient
from bench.place import ROOT, Child, until_ended
from bench.report import Fsync, Rounds, Row, Run, print_table
from ledger.stores.embedded import embedded_server

ROUNDS = 5
FSYNCS: tuple[Fsync, ...] = ("everysec", "always")
KINDS = {
    "ask": 1.15,
    "claim without masks": 1.1,
    "claim": 1.15,
}
"""The kinds of asks of this version, and the limits of their cost: a multiple of an ask of the other version."""


class Side(NamedTuple):
    """A process that asks with one version, and a client of its server."""

    child: Child
    floor: FloorClient


@asynccontextmanager
async def asker(root: Path, kind: str) -> AsyncIterator[Side]:
    """Run a process that asks with the version in `root`, on an embedded server of its own."""
    with tempfile.TemporaryDirectory() as folder:
        async with embedded_server(Path(folder)) as server:
            process = await asyncio.create_subprocess_exec(
                str(root / ".venv/bin/python"),
                str(ROOT / "bench/lone_asker.py"),
                server.url,
                kind,
                cwd=root,
                env={**os.environ, "PYTHONPATH": str(root)},
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
            )
            floor = await FloorClient.connect(server.url)
            try:
                async with until_ended(process) as running:
                    yield Side(running, floor)
            finally:
                floor.close()


async def compare(other: Path, asks: int, rounds: int) -> list[Row]:
    figures = Rounds("versions")
    async with AsyncExitStack() as stack:
        sides = {"other": await stack.enter_async_context(asker(other, "ask"))}
        for kind in KINDS:
            sides[kind] = await stack.enter_async_context(asker(ROOT, kind))
        for child, _ in sides.values():
            if await child.line() != "ready":
                raise RuntimeError("an asker did not start")
        for _ in range(rounds):
            for fsync in FSYNCS:
                for name, (child, floor) in sides.items():
                    await floor.send("CONFIG", "SET", "appendfsync", fsync)
                    await child.tell(f"{asks}")
                    used, waited = map(float, (await child.line()).split())
                    figures.add(fsync, f"{name} processor", used)
                    figures.add(fsync, f"{name} clock", waited)
    return [
        figures.compared(f"{kind}, {by}", fsync, f"{kind} {by}", "us", f"other {by}", at_most=limit)
        for kind, limit in KINDS.items()
        for fsync in FSYNCS
        for by in ("clock", "processor")
    ]


@click.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--asks", default=400, help="Asks of each kind in a round.")
@click.option("--rounds", default=ROUNDS, help="Rounds; all kinds take turns in each.")
def main(folder: Path, asks: int, rounds: int) -> None:
    """Compare lone asks of this checkout with those of another version's."""
    rows = asyncio.run(compare(folder.resolve(), asks, rounds))
    processors = os.cpu_count() or 1
    run = Run(quick=False, rounds=rounds, server="", python=platform.python_version(), processors=processors, rows=rows)
    print_table(run)
    sys.exit(0 if all(row.holds for row in rows) else 1)


if __name__ == "__main__":
    main()
