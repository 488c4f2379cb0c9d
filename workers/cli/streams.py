"""`streams` and `rebuild`: the streams on the server, the lag of the workers, and all views built from the streams."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from ledger import Ledger
from ledger.core.times import format_time
from ledger.log.archive.archive import all_streams, archive_of
from ledger.log.surveys import Survey, survey
from ledger.log.tail import check_entry_time
from ledger.log.viewed import checkpoints
from ledger.stores.port import StreamKey
from projections.comparison import Compared, compare_partition
from projections.lag import Overview, events_behind, lag_counts, overview
from workers.cli.base import command, utc_option, with_ledger
from workers.cli.options import with_jobs
from workers.cli.output import CommandOutput, Exit, GrowingTable, progress, talk, tell_problems
from workers.cli.tables import At, Wide
from workers.upkeep.works import processes_for, rebuild_views, results_of

if TYPE_CHECKING:
    from ledger import Ledger

DUE_COUNT_MAX: Final = 1_000_000

KEYS_AT_ONCE_COUNT: Final = 500
LIMIT_COUNT: Final = 1000
LIMIT_MAX: Final = 100_000

PARTITION_COLUMNS = ("partition", "streams", "events", "behind", Wide("feed"), "due")
STREAM_COLUMNS = ("stream", "partition", "events", "bytes", "last event", "behind")


@command("permission-ledger streams", "permission-ledger streams --each --json")
@utc_option
@click.option("--each", is_flag=True, help="A line for each stream instead of each partition, page by page.")
@click.option(
    "--limit",
    type=click.IntRange(1, LIMIT_MAX),
    default=LIMIT_COUNT,
    show_default=True,
    help="With --each: the size of a page, about.",
)
@click.option("--cursor", default="", help="With --each: go on where the page before ended, which names its cursor.")
@with_ledger
async def streams(ledger: Ledger, output: CommandOutput, *, each: bool, limit: int, cursor: str) -> int:
    """Show what lies in each partition: streams, feed, due index, consumer groups with lag and PEL.

    Lag is what no consumer of a group was given yet; PEL is what one was given and has not acknowledged; behind are
    events that no view has yet. With --each the streams themselves are read; stderr has the cursor of the next page.
    """
    if cursor and not each:
        raise click.UsageError("--cursor goes with --each")
    if each:
        return await _each(ledger, output, limit, cursor)
    known = await overview(ledger.store)
    rows = await _partition_rows(ledger, known)
    if output.as_json:
        output.rows(rows)
    elif not rows:
        talk("there is no stream")
    else:
        output.table(PARTITION_COLUMNS, [_partition_cells(row) for row in rows])
        total = {name: sum(row[name] for row in rows) for name in ("streams", "events", "behind", "due")}
        talk(", ".join(f"{count} {name}" for name, count in total.items()) + f" in {len(rows)} partitions")
    if known.trimmed:
        talk("hint: feeds dropped lines that nobody read, so there may be more; run the projector")
    return 0


async def _each(ledger: Ledger, output: CommandOutput, limit: int, cursor: str) -> int:
    keys, following = await _page(ledger, limit, cursor)
    found = await _seen(ledger, keys)
    ends = not (following or found.problems)
    none = "" if not ends else "there are no more streams" if cursor else "there is no stream"
    output.listing(found.rows, dict, STREAM_COLUMNS, _stream_cells, none=none)
    if following:
        output.aside({"cursor": following}, f"more: `permission-ledger streams --each --cursor {following}`")
    return tell_problems(output, found.problems)


def _stream_cells(row: dict[str, Any]) -> tuple[object, ...]:
    return (*(row[name] for name in ("stream", "partition", "events", "bytes")), At(row["at"]), row["behind"])


async def _page(ledger: Ledger, limit: int, cursor: str) -> tuple[list[StreamKey], str]:
    """Return at least `limit` streams from a cursor on, sorted among themselves, and the next cursor; empty at the end."""
    keys: set[StreamKey] = set()
    while True:
        some, cursor = await ledger.store.streams_page(cursor, min(limit, KEYS_AT_ONCE_COUNT))
        keys.update(some)
        if not cursor or len(keys) >= limit:
            return sorted(keys), cursor


async def _seen(ledger: Ledger, keys: Sequence[StreamKey]) -> Survey[dict[str, Any]]:
    """Return a row for each stream, with the number of its events that no view has yet."""
    store = ledger.store
    known = dict(zip(keys, await checkpoints(store, keys), strict=True))

    async def look(key: StreamKey) -> dict[str, Any] | None:
        info = await store.info(key)
        if info is None:
            return None
        check_entry_time(key, info.last)
        return {
            "stream": key.name,
            "partition": key.partition(store.partition_count),
            "events": info.length,
            "bytes": info.size_bytes,
            "head": str(info.last),
            "at": format_time(info.last.ms),
            "behind": max(info.last.version - known[key].version, 0),
        }

    found = await survey(keys, look)
    return Survey([one for one in found.rows if one is not None], found.problems)


async def _partition_rows(ledger: Ledger, known: Overview) -> list[dict[str, Any]]:
    feeds = await ledger.store.feeds()
    lags = await lag_counts(ledger.store, feeds)
    waiting = [StreamKey("session", session) for session, _ in await ledger.store.due(None, DUE_COUNT_MAX)]
    due = Counter(key.partition(ledger.store.partition_count) for key in waiting)
    rows: list[dict[str, Any]] = [
        {
            "partition": one.partition,
            "streams": known.partitions[one.partition].streams,
            "events": known.partitions[one.partition].events,
            "behind": known.behind_events[one.partition],
            "feed": one.feed_count,
            "groups": [
                {
                    "name": group.name,
                    "consumers": group.consumer_count,
                    "lag": lags[group.name, one.partition],
                    "pel": group.pel_count,
                }
                for group in one.groups
            ],
            "due": due[one.partition],
        }
        for one in feeds
    ]
    return [row for row in rows if row["streams"] or row["feed"] or row["due"]]


def _partition_cells(row: dict[str, Any]) -> tuple[object, ...]:
    groups = ", ".join(
        f"{group['name']}: {group['consumers']} consumers, lag {group['lag']}, PEL {group['pel']}"
        for group in row["groups"]
    )
    feed = f"{row['feed']} lines" + (f"; {groups}" if groups else "")
    return (*(row[name] for name in ("partition", "streams", "events", "behind")), feed, row["due"])


COMPARED_COLUMNS = ("view", "key", "same", "live", "rebuilt")


@command(
    "permission-ledger rebuild",
    "permission-ledger rebuild --jobs 2",
    "permission-ledger rebuild --verify --json",
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

    --verify compares every field of every view, and of that index, with what the streams make of it, and prints those that
    differ. What a projector has not come to yet is called behind, not different.
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
    output.result(
        {"streams": count, "events": events, "problems": problems},
        f"rebuilt all views from {events} events of {count} streams",
    )
    return Exit.FINDINGS if problems else Exit.DONE


async def _compare(
    ledger: Ledger, output: CommandOutput, streams: dict[int, list[StreamKey]], *, show_all: bool
) -> int:
    names = await ledger.store.views()
    shown = GrowingTable(output, COMPARED_COLUMNS, _compared_cells, Compared.as_json)
    fields = differing = behind_events = behind_streams = 0
    partitions = sorted({*streams, *names})
    with progress("partitions", len(partitions)) as advance:
        for partition in partitions:
            async for one in compare_partition(ledger.store, partition, names.get(partition, [])):
                fields += 1
                differing += not one.same
                if not one.same or show_all:
                    shown.add(one)
            behind = await events_behind(ledger.store, streams.get(partition, []))
            behind_streams += len(behind)
            behind_events += sum(behind.values())
            advance(1)
    shown.end()
    if behind_streams:
        talk(f"behind: {behind_events} events of {behind_streams} streams are not in the views yet; run the projector")
    talk(f"{fields} fields of {len(partitions)} partitions compared: {differing or 'none'} differ")
    return Exit.FINDINGS if differing else Exit.DONE


def _compared_cells(one: Compared) -> tuple[object, ...]:
    row = one.as_json()
    sides: Any = row["difference"]
    if not isinstance(sides, dict):
        return row["view"], row["key"], "yes" if one.same else "no", sides, None
    live, rebuilt = (msgspec.json.encode(sides[side]).decode() for side in ("live", "rebuilt"))
    return row["view"], row["key"], "no", live, rebuilt
