"""Queries of the views. Every result has the version of each stream it is as of, because views may lag.

Rows are CONTRACT's objects. A decision that must not lag (may this call run?) is made by `ledger`, never by a view.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from heapq import nsmallest
from typing import Any, Final, NamedTuple

import msgspec

from ledger.client.grant_list import grant_row
from ledger.core.durations import DAY_MS
from ledger.core.events import Outcome
from ledger.core.times import parse_time
from ledger.log.divided import OUTCOMES_VIEW, PEOPLE_VIEW
from ledger.log.places import ALL, ASKED, WAITING_VIEW, asked_ms_of, field_of, parts_of
from ledger.log.viewed import fields_of_streams, session_rows
from ledger.stores.divided import CHECKPOINTS_VIEW, checkpoint_in
from ledger.stores.port import Store, StreamKey
from projections.approved import APPROVED
from projections.counts import ANSWER, DECISION, EVENTS_COUNT, HOUR, HOURS_COUNT, PENDING_COUNT, STREAMS_COUNT
from projections.durations import DURATION, DURATION_BUCKETS_MS, INFINITE, LATENESS, LATENESS_BUCKETS_MS, SUM
from projections.notifications import NOTIFICATION, TOLD
from projections.outcomes import DECISIONS
from projections.pending import PENDING
from projections.projection import COUNTS
from projections.sessions import Latest, latest_prefix, latest_view, outcome_field, shown_row

RECENT_COUNT: Final = 100

Row = dict[str, Any]


class ViewResult(msgspec.Struct, frozen=True):
    """Rows, and the version that they are as of for each source stream by name (`session:ses_1`)."""

    rows: list[Row]
    as_of: dict[str, int]

    def version_of(self, key: StreamKey) -> int:
        """Return the version of a stream; 0 if it was not projected yet."""
        return self.as_of.get(key.name, 0)


async def pending(store: Store) -> ViewResult:
    """Return the pending requests of all sessions, nearest deadline first; those that never expire come last."""
    partitions = range(store.partition_count)
    found = await asyncio.gather(*(store.views.read(one, (PENDING, *CHECKPOINTS_VIEW.parts)) for one in partitions))
    rows = [_decoded(value) for views in found for value in views[PENDING].values()]
    sessions = {StreamKey("session", one["session"]).name for one in rows}
    held = (views[part] for views in found for part in CHECKPOINTS_VIEW.parts)
    as_of = {name: version for one in held for name, version in _versions(one).items() if name in sessions}
    return ViewResult(sorted(rows, key=_by_deadline), as_of)


async def pending_of(store: Store, session: str) -> ViewResult:
    """Return the pending requests of a session, in order of asking."""
    key = StreamKey("session", session)
    checkpoints = CHECKPOINTS_VIEW.of(key.id)
    views = await store.views.read(store.partition_of(key), (PENDING, checkpoints))
    rows = [_decoded(value) for field, value in views[PENDING].items() if parts_of(field)[0] == session]
    return ViewResult(sorted(rows, key=lambda one: one["version"]), _only(views[checkpoints], key))


async def approved_of(store: Store, key: StreamKey, now_ms: int) -> ViewResult:
    """Return the grants of one session or project stream that are in force at a server time (ms), oldest first."""
    checkpoints = CHECKPOINTS_VIEW.of(key.id)
    views = await store.views.read(store.partition_of(key), (APPROVED, checkpoints))
    rows = [grant_row(value) for field, value in views[APPROVED].items() if parts_of(field)[0] == key.name]
    live = [one for one in rows if one["expires_at"] is None or now_ms < parse_time(one["expires_at"])]
    return ViewResult(sorted(live, key=lambda one: (one["at"], one["grant_id"])), _only(views[checkpoints], key))


async def recent_sessions(store: Store, count: int = RECENT_COUNT) -> ViewResult:
    """Return the sessions with the newest events, newest first, each with counts of its `outcomes`."""
    rows = await session_summaries(store, [one.session for one in await latest_sessions(store, count)])
    return ViewResult(rows, {StreamKey("session", row["session"]).name: row["version"] for row in rows})


async def latest_sessions(
    store: Store, count: int, *, scopes: Sequence[str] = (ALL,), after: Latest | None = None
) -> list[Latest]:
    """Return a page of the sessions of scopes (`ledger.log.places.scope_of`) after a place, newest event first."""
    pages = await asyncio.gather(
        *(
            store.views.page(latest_view(one).parts, prefix, count, "" if after is None else prefix + after.order)
            for one in scopes
            for prefix in (latest_prefix(one),)
        )
    )
    return nsmallest(count, {Latest.of_field(field) for page in pages for field in page}, key=lambda one: one.order)


async def session_summaries(store: Store, sessions: Sequence[str]) -> list[Row]:
    """Return the rows of sessions in this order, each with counts of its `outcomes`; none where nothing was projected."""
    names = Outcome.__args__  # type: ignore[attr-defined]
    wanted = [(StreamKey("session", one), outcome_field(one, name)) for one in sessions for name in names]
    summaries, counts = await asyncio.gather(
        session_rows(store, sessions), fields_of_streams(store, OUTCOMES_VIEW, wanted)
    )
    rows: list[Row] = []
    for index, (session, summary) in enumerate(zip(sessions, summaries, strict=True)):
        if summary is not None:
            own = zip(names, counts[index * len(names) :], strict=False)
            outcomes = {name: int(count) for name, count in own if count not in (None, b"0")}
            rows.append({**shown_row(session, summary), "outcomes": outcomes})
    return rows


async def answered_by(store: Store, name: str, sessions: Iterable[str]) -> set[str]:
    """Return those of the sessions in which a person has answered a request."""
    keys = [StreamKey("session", session) for session in sessions]
    found = await asyncio.gather(
        *(store.view_field(PEOPLE_VIEW.of(key.id), store.partition_of(key), field_of(name, key.id)) for key in keys)
    )
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
    found = await asyncio.gather(*(store.views.starting(TOLD, prefix) for prefix in prefixes))
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
    return _totals_of(await store.views.counts(COUNTS))


async def oldest_pending_ms(store: Store) -> int | None:
    """Return the time (server ms) of the oldest pending request's ask, None without any; one page of one field."""
    found = await store.views.page([WAITING_VIEW], ASKED, 1)
    return asked_ms_of(found[0]) if found else None


class PartitionCounts(NamedTuple):
    """The streams of a partition that have views, and the events in them."""

    streams: int
    events: int


async def counts_of_partitions(store: Store) -> list[PartitionCounts]:
    """Return the counts of each partition."""
    found = await store.views.counts(COUNTS)
    return [PartitionCounts(one.get(STREAMS_COUNT, 0), one.get(EVENTS_COUNT, 0)) for one in found]


def _totals_of(partitions: Sequence[Mapping[str, int]]) -> Totals:
    total: Counter[str] = Counter()
    for one in partitions:
        total.update(one)
    bounds = dict.fromkeys(DECISIONS, DURATION_BUCKETS_MS) | {LATENESS: LATENESS_BUCKETS_MS}
    told = {parts_of(field): count for field, count in sorted(total.items())}
    return Totals(
        decisions={label: total[field_of(DECISION, label)] for label in DECISIONS},
        histograms={what: _histogram(what, known, total) for what, known in bounds.items()},
        notifications={(name[1], name[2]): count for name, count in told.items() if name[0] == NOTIFICATION},
        answers={(name[1], name[2], name[3]): count for name, count in told.items() if name[0] == ANSWER},
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


async def versions(store: Store) -> dict[str, int]:
    """Return the version that the views of each stream are as of, by stream name."""
    partitions = range(store.partition_count)
    found = await asyncio.gather(*(store.views.read(one, CHECKPOINTS_VIEW.parts) for one in partitions))
    return {name: version for views in found for held in views.values() for name, version in _versions(held).items()}


def _decoded(value: bytes) -> Row:
    row: Row = msgspec.json.decode(value)
    return row


def _versions(checkpoints: Mapping[str, bytes]) -> dict[str, int]:
    return {name: checkpoint_in(value).version for name, value in checkpoints.items()}


def _only(checkpoints: Mapping[str, bytes], key: StreamKey) -> dict[str, int]:
    return {key.name: _versions(checkpoints).get(key.name, 0)}


def _by_deadline(row: Row) -> tuple[bool, str, str, int]:
    return row["deadline"] is None, row["deadline"] or "", row["session"], row["version"]
