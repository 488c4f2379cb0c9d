"""`rebuild`: all views built again from the streams, or (`--verify`) compared with them."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import click
import msgspec

from ledger.log.archive.archive import all_streams, archive_of
from ledger.stores.port import StreamKey
from projections.comparison import Compared, compare_partition
from projections.lag import events_behind
from workers.cli.base import command, with_ledger
from workers.cli.exits import Exit
from workers.cli.output import CommandOutput, talk
from workers.cli.progress import progress
from workers.cli.shared_options import with_jobs
from workers.upkeep.works import processes_for, rebuild_views, results_of

if TYPE_CHECKING:
    from ledger import Ledger

COLUMNS = ("view", "key", "same", "live", "rebuilt")


@command(
    examples=(
        "permission-ledger rebuild",
        "permission-ledger rebuild --jobs 2",
        "permission-ledger rebuild --verify --json",
    )
)
@click.option("--verify", "only_verify", is_flag=True, help="Change nothing: compare the views with the streams.")
@click.option("--all", "show_all", is_flag=True, help="With --verify: print equal fields, too.")
@with_jobs
@with_ledger
async def rebuild(
    ledger: Ledger,
    output: CommandOutput,
    *,
    only_verify: bool,
    show_all: bool,
    jobs: int | None,
) -> int:
    """Build all views and the index of deadlines anew from the streams, which alone are the truth.

    With --verify nothing is changed: every field of every view, and of that index, is compared with what the streams make of
    it, and those that differ are printed. What a projector has not come to yet is called behind, not different.
    """
    if show_all and not only_verify:
        raise click.UsageError("--all goes with --verify")
    if only_verify and jobs:
        raise click.UsageError("--verify works in one process: leave out --jobs")
    streams = await _by_partition(ledger)
    if only_verify:
        return await _compare(ledger, output, streams, show_all=show_all)
    return await _rebuild(ledger, output, streams, jobs)


async def _by_partition(ledger: Ledger) -> dict[int, list[StreamKey]]:
    streams: dict[int, list[StreamKey]] = defaultdict(list)
    found = [key async for key in all_streams(ledger.store)]
    for key in await archive_of(ledger.store).in_file_order(found):
        streams[key.partition(ledger.store.partition_count)].append(key)
    return streams


async def _rebuild(ledger: Ledger, output: CommandOutput, streams: dict[int, list[StreamKey]], jobs: int | None) -> int:
    names = await ledger.store.views()
    portions = [(one, streams.get(one, []), names.get(one, [])) for one in sorted({*streams, *names})]
    count = sum(len(keys) for _, keys, _ in portions)
    events = 0
    problems: list[str] = []
    with progress("streams", count) as advance:
        async for stream_count, event_count, found in results_of(
            rebuild_views, ledger, portions, processes_for(jobs, count)
        ):
            events += event_count
            problems += found
            advance(stream_count)
    for text in problems:
        talk(f"warning: {text}")
    if output.as_json:
        output.row({"streams": count, "events": events, "problems": problems})
    else:
        output.line(f"rebuilt all views from {events} events of {count} streams")
    return Exit.FINDINGS if problems else Exit.DONE


async def _compare(
    ledger: Ledger, output: CommandOutput, streams: dict[int, list[StreamKey]], *, show_all: bool
) -> int:
    names = await ledger.store.views()
    shown: list[Compared] = []
    fields = differing = behind_events = behind_streams = 0
    partitions = sorted({*streams, *names})
    with progress("partitions", len(partitions)) as advance:
        for partition in partitions:
            async for one in compare_partition(ledger.store, partition, names.get(partition, [])):
                fields += 1
                differing += not one.same
                if not one.same or show_all:
                    _show(output, one, shown)
            behind = await events_behind(ledger.store, streams.get(partition, []))
            behind_streams += len(behind)
            behind_events += sum(behind.values())
            advance(1)
    if shown:
        output.table(COLUMNS, [_cells(one) for one in shown])
    if behind_streams:
        talk(f"behind: {behind_events} events of {behind_streams} streams are not in the views yet; run the projector")
    talk(f"{fields} fields of {len(partitions)} partitions compared: {differing or 'none'} differ")
    return Exit.FINDINGS if differing else Exit.DONE


def _show(output: CommandOutput, one: Compared, shown: list[Compared]) -> None:
    """Print a row at once for a program; keep it for a person, whose table needs all of them."""
    if output.as_json:
        output.row(one.as_json())
    else:
        shown.append(one)


def _cells(one: Compared) -> tuple[object, ...]:
    row = one.as_json()
    sides: Any = row["difference"]
    if not isinstance(sides, dict):
        return row["view"], row["key"], "yes" if one.same else "no", sides, None
    live, rebuilt = (msgspec.json.encode(sides[side]).decode() for side in ("live", "rebuilt"))
    return row["view"], row["key"], "no", live, rebuilt
