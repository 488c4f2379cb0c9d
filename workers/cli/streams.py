"""`streams`: the streams on the server, and the lag of the workers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import click
import msgspec

from ledger import Ledger
from ledger.core.times import format_time
from ledger.log.entries import check_entry_time
from ledger.log.surveys import StreamProblem, Survey, survey
from ledger.stores.admin import PartitionFacts
from ledger.stores.port import StreamInfo, StreamKey
from projections.lag import checkpoints
from workers.cli.base import command, with_ledger
from workers.cli.output import CommandOutput, talk
from workers.cli.problems import tell_problems
from workers.cli.progress import progress

AT_ONCE_COUNT: Final = 200

PARTITION_COLUMNS = ("partition", "streams", "events", "bytes", "behind", "feed", "groups", "due")
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
@click.option("--each", is_flag=True, help="A line for each stream instead of each partition.")
@with_ledger
async def streams(ledger: Ledger, output: CommandOutput, *, each: bool) -> int:
    """Show what lies in each partition: streams, feed, due index, consumer groups with lag and PEL.

    Lag is what no consumer of a group was given yet; PEL is what one was given and has not acknowledged; behind are
    events that no view has yet. Partitions that hold nothing are left out. Streams that the server says are damaged are
    named on stderr (exit code 11).
    """
    seen, problems = await _all(ledger)
    rows = [_stream_json(one) for one in seen] if each else await _partition_rows(ledger, seen)
    if output.as_json:
        output.rows(rows)
    elif not rows:
        if not problems:
            talk("there is no stream")
    elif each:
        output.table(STREAM_COLUMNS, [_stream_cells(row) for row in rows])
    else:
        output.table(PARTITION_COLUMNS, [_partition_cells(row) for row in rows])
        total = {name: sum(row[name] for row in rows) for name in ("streams", "events", "bytes", "behind", "due")}
        talk(", ".join(f"{count} {name}" for name, count in total.items()) + f" in {len(rows)} partitions")
    return tell_problems(output, problems)


async def _all(ledger: Ledger) -> tuple[list[_Seen], list[StreamProblem]]:
    keys = sorted([key async for key in ledger.store.streams()])
    seen: list[_Seen] = []
    problems: list[StreamProblem] = []
    with progress("streams", len(keys)) as advance:
        for start in range(0, len(keys), AT_ONCE_COUNT):
            some = keys[start : start + AT_ONCE_COUNT]
            found = await _some(ledger, some)
            seen += found.rows
            problems += found.problems
            advance(len(some))
    return seen, problems


async def _some(ledger: Ledger, keys: Sequence[StreamKey]) -> Survey[_Seen]:
    store = ledger.store
    known = dict(zip(keys, await checkpoints(store, keys), strict=True))

    async def look(key: StreamKey) -> _Seen | None:
        info = await store.info(key)
        if info is None:
            return None
        check_entry_time(key, info.last)
        behind = max(info.last.version - known[key].version, 0)
        return _Seen(key=key, partition=store.partition_of(key), info=info, behind=behind)

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


async def _partition_rows(ledger: Ledger, seen: Sequence[_Seen]) -> list[dict[str, Any]]:
    by_partition: dict[int, list[_Seen]] = {}
    for one in seen:
        by_partition.setdefault(one.partition, []).append(one)
    facts = await ledger.store.admin.partitions()
    rows = [_partition_json(one, by_partition.get(one.partition, [])) for one in facts]
    return [row for row in rows if row["streams"] or row["feed"] or row["due"]]


def _partition_json(facts: PartitionFacts, seen: Sequence[_Seen]) -> dict[str, Any]:
    return {
        "partition": facts.partition,
        "streams": len(seen),
        "events": sum(one.info.length for one in seen),
        "bytes": sum(one.info.size_bytes or 0 for one in seen),
        "behind": sum(one.behind for one in seen),
        "feed": facts.feed_count,
        "groups": [
            {"name": group.name, "consumers": group.consumer_count, "lag": group.lag_count, "pel": group.pel_count}
            for group in facts.groups
        ],
        "due": facts.due_count,
    }


def _stream_cells(row: dict[str, Any]) -> tuple[object, ...]:
    return tuple(row[name] for name in ("stream", "partition", "events", "bytes", "at", "behind"))


def _partition_cells(row: dict[str, Any]) -> tuple[object, ...]:
    groups = ", ".join(
        f"{group['name']}: {group['consumers']} consumers, lag {group['lag']}, PEL {group['pel']}"
        for group in row["groups"]
    )
    return (*(row[name] for name in ("partition", "streams", "events", "bytes", "behind", "feed")), groups, row["due"])
