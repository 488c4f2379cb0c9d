"""`streams`: the streams on the server, and the lag of the workers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

import click
import msgspec

from ledger import Ledger
from ledger.core.times import format_time
from ledger.log.surveys import Survey, survey
from ledger.log.tail import check_entry_time
from ledger.log.viewed import checkpoints
from ledger.stores.port import FeedFacts, StreamInfo, StreamKey
from projections.lag import Overview, lag_counts, overview
from workers.cli.base import command, with_ledger
from workers.cli.output import CommandOutput, talk, talk_json
from workers.cli.problems import tell_problems

DUE_COUNT_MAX: Final = 1_000_000

KEYS_AT_ONCE_COUNT: Final = 500
LIMIT_COUNT: Final = 1000
LIMIT_MAX: Final = 100_000

PARTITION_COLUMNS = ("partition", "streams", "events", "behind", "feed", "groups", "due")
STREAM_COLUMNS = ("stream", "partition", "events", "bytes", "last event", "behind")


class _Seen(msgspec.Struct, frozen=True, kw_only=True):
    """One stream, and the number of its events that no view has yet."""

    key: StreamKey
    partition: int
    info: StreamInfo
    behind: int


@command(
    examples=(
        "permission-ledger streams",
        "permission-ledger streams --each --json",
    )
)
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
    events that no view has yet. Partitions that hold nothing are left out. The numbers are those of the views and the
    feeds. With --each the streams themselves are read; those that the server says are damaged are named on stderr
    (exit code 11), and so is the cursor of the next page.
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
    rows = [_stream_json(one) for one in found.rows]
    if output.as_json:
        output.rows(rows)
    elif rows:
        output.table(STREAM_COLUMNS, [_stream_cells(row) for row in rows])
    elif not following and not found.problems:
        talk("there is no stream" if not cursor else "there are no more streams")
    if following and output.as_json:
        talk_json({"cursor": following})
    elif following:
        talk(f"more: `permission-ledger streams --each --cursor {following}`")
    return tell_problems(output, found.problems)


async def _page(ledger: Ledger, limit: int, cursor: str) -> tuple[list[StreamKey], str]:
    """Return at least `limit` streams from a cursor on, sorted among themselves, and the next cursor; empty at the end."""
    keys: set[StreamKey] = set()
    while True:
        some, cursor = await ledger.store.streams_page(cursor, min(limit, KEYS_AT_ONCE_COUNT))
        keys.update(some)
        if not cursor or len(keys) >= limit:
            return sorted(keys), cursor


async def _seen(ledger: Ledger, keys: Sequence[StreamKey]) -> Survey[_Seen]:
    store = ledger.store
    known = dict(zip(keys, await checkpoints(store, keys), strict=True))

    async def look(key: StreamKey) -> _Seen | None:
        info = await store.info(key)
        if info is None:
            return None
        check_entry_time(key, info.last)
        behind = max(info.last.version - known[key].version, 0)
        return _Seen(key=key, partition=key.partition(store.partition_count), info=info, behind=behind)

    found = await survey(keys, look)
    return Survey([one for one in found.rows if one is not None], found.problems)


def _stream_json(one: _Seen) -> dict[str, Any]:
    return {
        "stream": one.key.name,
        "partition": one.partition,
        "events": one.info.length,
        "bytes": one.info.size_bytes,
        "head": str(one.info.last),
        "at": format_time(one.info.last.ms),
        "behind": one.behind,
    }


async def _partition_rows(ledger: Ledger, known: Overview) -> list[dict[str, Any]]:
    feeds = await ledger.store.feeds()
    lags = await lag_counts(ledger.store, feeds)
    waiting = [StreamKey("session", session) for session, _ in await ledger.store.due(None, DUE_COUNT_MAX)]
    due = Counter(key.partition(ledger.store.partition_count) for key in waiting)
    rows = [{**_partition_json(one, known, lags), "due": due[one.partition]} for one in feeds]
    return [row for row in rows if row["streams"] or row["feed"] or row["due"]]


def _partition_json(facts: FeedFacts, known: Overview, lags: Mapping[tuple[str, int], int]) -> dict[str, Any]:
    counts = known.partitions[facts.partition]
    return {
        "partition": facts.partition,
        "streams": counts.streams,
        "events": counts.events,
        "behind": known.behind_events[facts.partition],
        "feed": facts.feed_count,
        "groups": [
            {
                "name": group.name,
                "consumers": group.consumer_count,
                "lag": lags[group.name, facts.partition],
                "pel": group.pel_count,
            }
            for group in facts.groups
        ],
    }


def _stream_cells(row: dict[str, Any]) -> tuple[object, ...]:
    return tuple(row[name] for name in ("stream", "partition", "events", "bytes", "at", "behind"))


def _partition_cells(row: dict[str, Any]) -> tuple[object, ...]:
    groups = ", ".join(
        f"{group['name']}: {group['consumers']} consumers, lag {group['lag']}, PEL {group['pel']}"
        for group in row["groups"]
    )
    return (*(row[name] for name in ("partition", "streams", "events", "behind", "feed")), groups, row["due"])
