"""`python -m bench.cluster`: the same work on one, two and three primaries; loads, shares, hot keys, and capacity on paper.

All processes share this machine's processors, so the clock shows nothing. The capacity of a cluster is computed from the
time of the commands of its busiest primary: the cluster is full when that one works for a second in a second.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path
from statistics import fmean
from typing import Final

import click

from bench.cluster.figures import HEADINGS, ClusterRun, NodeFigures, Scale, lines, shares_of
from bench.cluster.nodes import Load, Node, cluster, idling, loads, url_of
from bench.cluster.touches import Touches, monitoring
from bench.growth.lives import EVENTS_COUNT
from bench.page import keep
from bench.place import child
from bench.report import print_lines, write_json
from ledger import Ledger

COUNTS: Final = (1, 2, 3)
PROBLEMS: Final = 11
HOTTEST_COUNT: Final = 8
MONITORED_SHARE: Final = 0.25
"""The share of the sessions that is filled again under MONITOR, after the measurement, which it would slow down."""


async def fill(nodes: list[Node], first: int, end: int, jobs: int) -> None:
    """Write sessions of ten events each through the Python API, with several processes."""
    async with AsyncExitStack() as stack:
        children = [
            await stack.enter_async_context(
                child("bench.growth.filling_child", url_of(nodes), 0, first + job, end, jobs)
            )
            for job in range(jobs)
        ]
        for one in children:
            while await one.line() != "done":
                pass


async def measure(folder: Path, sessions: int, jobs: int) -> ClusterRun:
    scales: list[Scale] = []
    touches = Touches()
    figures: list[NodeFigures] = []
    for count in COUNTS:
        with cluster(folder, count) as nodes:
            async with Ledger.connect(url_of(nodes), entry_points=False):
                used = await filled(nodes, sessions, jobs)
                script = [await asyncio.to_thread(node.script_microseconds) for node in nodes]
            scales.append(scale_of(used, script, sessions))
            tell(f"{count} primaries: {scales[-1].capacity:,.0f} events/s on paper")
            if count == COUNTS[-1]:
                figures = shares_of(used)
                async with monitoring(nodes) as touches:
                    await fill(nodes, sessions, sessions + max(jobs, round(sessions * MONITORED_SHARE)), jobs)
    return ClusterRun.of(sessions, scales, figures, touches, HOTTEST_COUNT)


async def filled(nodes: list[Node], sessions: int, jobs: int) -> list[Load]:
    """Fill a cluster; return what that took of each node."""
    idle = await idling(nodes)
    for node in nodes:
        await asyncio.to_thread(node.run, "CONFIG", "RESETSTAT")
    before, began = await loads(nodes), time.monotonic()
    await fill(nodes, 0, sessions, jobs)
    passed = time.monotonic() - began
    after = await loads(nodes)
    return [now.since(then).without_idling(own, passed) for now, then, own in zip(after, before, idle, strict=True)]


def scale_of(used: list[Load], script: list[float], sessions: int) -> Scale:
    events = sessions * EVENTS_COUNT
    return Scale(
        primaries=len(used),
        events=events,
        microseconds_an_event=sum(one.processor_seconds for one in used) / events * 1e6,
        script_microseconds=fmean(script),
        capacity=events / max(one.command_seconds for one in used),
        processor_capacity=events / max(one.processor_seconds for one in used),
    )


def tell(text: str) -> None:
    """Print progress on stderr."""
    print(f"cluster: {text}", file=sys.stderr, flush=True)


@click.command()
@click.option(
    "--sessions", type=click.IntRange(20), default=3000, show_default=True, help="Of ten events, on each cluster."
)
@click.option("--jobs", type=click.IntRange(1, 64), default=3, show_default=True, help="Processes that fill.")
@click.option("--json", "file", type=click.Path(path_type=Path), help="Write the figures to this file, too.")
@click.option("--keep", "is_kept", is_flag=True, help="Keep the table for the page of speed.")
def main(*, sessions: int, jobs: int, file: Path | None, is_kept: bool) -> None:
    """Fill clusters of one, two and three primaries, and compare their loads. The exit code is 11 if a target is missed."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pl-cluster-")))
        run = asyncio.run(measure(folder, sessions, jobs))
    print_lines(HEADINGS, lines(run))
    if file is not None:
        write_json(run, file)
    if is_kept:
        keep("cluster", f"python -m bench.cluster --sessions {sessions}", "one run", HEADINGS, lines(run))
    sys.exit(0 if all(one.holds for one in run.targets) else PROBLEMS)


if __name__ == "__main__":
    main()
