"""Queries of the views, which may lag. Rows are CONTRACT's objects.

A decision that must not lag (may this call run?) is made by `ledger`, never by a view.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from heapq import nsmallest
from typing import Any, NamedTuple

import msgspec

from ledger.core.events import Outcome
from ledger.core.times import DAY_MS
from ledger.log.places import ALL, ASKED, WAITING_VIEW, asked_ms_of, field_of, parts_of
from ledger.log.viewed import fields_of_streams, session_rows
from ledger.stores.port import StreamKey
from ledger.stores.store import Store
from projections.counts import (
    ANSWER,
    DECISION,
    DURATION,
    DURATION_BUCKETS_MS,
    EVENTS_COUNT,
    HOUR,
    HOURS_COUNT,
    INFINITE,
    LATENESS,
    LATENESS_BUCKETS_MS,
    NOTIFICATION,
    PENDING_COUNT,
    STREAMS_COUNT,
    SUM,
    TOLD,
)
from projections.projection import COUNTS, DECISIONS
from projections.sessions import LATEST_VIEW, OUTCOMES_VIEW, PEOPLE_VIEW, Latest

Row = dict[str, Any]


async def latest_sessions(
    store: Store, count: int, *, scopes: Sequence[str] = (ALL,), after: Latest | None = None
) -> list[Latest]:
    """Return a page of the sessions of scopes (`ledger.log.places.scope_of`) after a place, newest event first."""
    pages = await asyncio.gather(
        *(store.view_page(LATEST_VIEW, scope, count, "" if after is None else scope + after.order) for scope in scopes)
    )
    return nsmallest(count, {Latest.of_field(field) for page in pages for field in page}, key=lambda one: one.order)


async def session_summaries(store: Store, sessions: Sequence[str]) -> list[Row]:
    """Return the rows of sessions in this order, each with counts of its `outcomes`; none where nothing was projected."""
    names = Outcome.__args__  # type: ignore[attr-defined]
    wanted = [(StreamKey("session", one), field_of(one, name)) for one in sessions for name in names]
    summaries, counts = await asyncio.gather(
        session_rows(store, sessions), fields_of_streams(store, OUTCOMES_VIEW, wanted)
    )
    rows: list[Row] = []
    for index, summary in enumerate(summaries):
        if summary is not None:
            own = zip(names, counts[index * len(names) :], strict=False)
            outcomes = {name: int(count) for name, count in own if count not in (None, b"0")}
            rows.append({**summary, "outcomes": outcomes})
    return rows


async def answered_by(store: Store, name: str, sessions: Iterable[str]) -> set[str]:
    """Return those of the sessions in which a person has answered a request."""
    keys = [StreamKey("session", session) for session in sessions]
    found = await fields_of_streams(store, PEOPLE_VIEW, [(key, field_of(name, key.id)) for key in keys])
    return {key.id for key, known in zip(keys, found, strict=True) if known is not None}


class SentMessage(msgspec.Struct, frozen=True):
    """A message that a service accepted, and its server time (ms)."""

    service: str
    ms: int


async def messages_to(store: Store, person: str, services: Sequence[str], now_ms: int) -> dict[str, SentMessage]:
    """Return the messages that these services accepted for a person today and yesterday (UTC), by id."""
    prefixes = [
        field_of(person, service, str(now_ms // DAY_MS - days_ago), "") for service in services for days_ago in (0, 1)
    ]
    found = await asyncio.gather(*(store.view_page(TOLD, prefix, None) for prefix in prefixes))
    rows = [parts_of(field) for fields in found for field in fields]
    return {message_id: SentMessage(service, int(ms)) for _, service, _, ms, message_id in sorted(rows, reverse=True)}


class Histogram(msgspec.Struct, frozen=True):
    """Counts of values by bucket, each with its upper bound (in s, None: no bound), and the sum of all values in s."""

    buckets: tuple[tuple[float | None, int], ...]
    sum_seconds: float


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    """All counts of the views. `decisions`: asks by decision label of CONTRACT's metric, each once.

    `histograms` are of request durations by decision, and of the lateness of expiries as `lateness`; `notifications`
    are by service and result, `answers` by kind and name of who answered, and outcome;
    `answer_hours` are their number by hour of day (UTC).
    """

    decisions: dict[str, int]
    histograms: dict[str, Histogram]
    notifications: dict[tuple[str, str], int]
    answers: dict[tuple[str, str, str], int]
    answer_hours: tuple[int, ...]
    pending: int
    streams: int
    events: int


async def totals(store: Store) -> Totals:
    """Return all counts; reads one hash a partition, whatever the number of sessions."""
    return _totals_of(await _counts(store))


async def _counts(store: Store) -> list[dict[str, int]]:
    found = await asyncio.gather(*(store.read_views(one, [COUNTS]) for one in range(store.partition_count)))
    return [{field: int(value) for field, value in one[COUNTS].items()} for one in found]


async def oldest_pending_ms(store: Store) -> int | None:
    """Return the time (server ms) of the oldest pending request's ask, None without any; one page of one field."""
    found = await store.view_page(WAITING_VIEW, ASKED, 1)
    return asked_ms_of(found[0]) if found else None


class PartitionCounts(NamedTuple):
    """The streams of a partition that have views, and the events in them."""

    streams: int
    events: int


async def counts_of_partitions(store: Store) -> list[PartitionCounts]:
    """Return the counts of each partition."""
    found = await _counts(store)
    return [PartitionCounts(one.get(STREAMS_COUNT, 0), one.get(EVENTS_COUNT, 0)) for one in found]


def _totals_of(partitions: Sequence[Mapping[str, int]]) -> Totals:
    total: Counter[str] = Counter()
    for one in partitions:
        total.update(one)
    bounds = dict.fromkeys(DECISIONS, DURATION_BUCKETS_MS) | {LATENESS: LATENESS_BUCKETS_MS}
    counted = {parts_of(field): count for field, count in sorted(total.items())}
    return Totals(
        decisions={label: total[field_of(DECISION, label)] for label in DECISIONS},
        histograms={what: _histogram(what, known, total) for what, known in bounds.items()},
        notifications={(name[1], name[2]): count for name, count in counted.items() if name[0] == NOTIFICATION},
        answers={(name[1], name[2], name[3]): count for name, count in counted.items() if name[0] == ANSWER},
        answer_hours=tuple(total[field_of(HOUR, str(hour))] for hour in range(HOURS_COUNT)),
        pending=total[PENDING_COUNT],
        streams=total[STREAMS_COUNT],
        events=total[EVENTS_COUNT],
    )


def _histogram(what: str, bounds: Sequence[int], total: Mapping[str, int]) -> Histogram:
    def count_of(bucket: str) -> int:
        return total.get(field_of(DURATION, what, bucket), 0)

    finite = [(bound / 1000, count_of(str(bound))) for bound in bounds]
    return Histogram((*finite, (None, count_of(INFINITE))), count_of(SUM) / 1000)
