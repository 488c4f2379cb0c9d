"""Queries of the views. Every result has the version of each stream it is as of, because views may lag.

Rows are CONTRACT's objects. A decision that must not lag (may this call run?) is made by `ledger`, never by a view.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from ledger.core.durations import DAY_MS
from ledger.core.times import parse_time
from ledger.stores.port import Position, Store, StreamKey
from projections.approved import APPROVED
from projections.counts import COUNTS
from projections.durations import DURATION_BUCKETS_MS, DURATIONS, INFINITE, LATENESS, LATENESS_BUCKETS_MS, SUM
from projections.grants import GRANTS
from projections.notifications import NOTIFICATIONS, TOLD
from projections.outcomes import DECISIONS
from projections.pending import PENDING
from projections.people import PEOPLE
from projections.projection import field_of, parts_of
from projections.requests import REQUESTS
from projections.sessions import OUTCOMES, RECENT, SESSIONS
from projections.timeline import timeline_view
from projections.views import HEADS

TIMELINE_PAGE_COUNT: Final = 1000
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
    found = await asyncio.gather(*(store.views.read(one, (PENDING, HEADS)) for one in partitions))
    rows = [_decoded(value) for views in found for value in views[PENDING].values()]
    sessions = {StreamKey("session", one["session"]).name for one in rows}
    heads = {name: version for views in found for name, version in _versions(views[HEADS]).items() if name in sessions}
    return ViewResult(sorted(rows, key=_by_deadline), heads)


async def pending_of(store: Store, session: str) -> ViewResult:
    """Return the pending requests of a session, in order of asking."""
    key = StreamKey("session", session)
    views = await store.views.read(store.partition_of(key), (PENDING, HEADS))
    rows = [_decoded(value) for field, value in views[PENDING].items() if parts_of(field)[0] == session]
    return ViewResult(sorted(rows, key=lambda one: one["version"]), _only(views[HEADS], key))


async def approved_of(store: Store, key: StreamKey, now_ms: int) -> ViewResult:
    """Return the grants of one session or project stream that are in force at a server time (ms), oldest first."""
    views = await store.views.read(store.partition_of(key), (APPROVED, HEADS))
    rows = [_decoded(value) for field, value in views[APPROVED].items() if parts_of(field)[0] == key.name]
    live = [one for one in rows if one["expires_at"] is None or now_ms < parse_time(one["expires_at"])]
    return ViewResult(sorted(live, key=lambda one: (one["at"], one["grant_id"])), _only(views[HEADS], key))


async def recent_sessions(store: Store, count: int = RECENT_COUNT) -> ViewResult:
    """Return the sessions with the newest events, newest first, each with counts of its `outcomes`."""
    recent = await store.views.highest(RECENT, count)
    found = await asyncio.gather(*(session_summary(store, session) for session, _ in recent))
    return _joined(found)


async def session_summary(store: Store, session: str) -> ViewResult:
    """Return one row, or none for a session that was not projected yet."""
    key = StreamKey("session", session)
    partition = store.partition_of(key)
    names = ("allowed", "denied", "rejected", "corrected", "expired", "cancelled")
    summary, counts = await asyncio.gather(
        store.view_field(SESSIONS, partition, session),
        store.views.fields(OUTCOMES, partition, [field_of(session, name) for name in names]),
    )
    if summary is None:
        return ViewResult([], {key.name: 0})
    row = _decoded(summary)
    row["outcomes"] = {name: int(count) for name, count in zip(names, counts, strict=True) if count not in (None, b"0")}
    # The summary changes with every event, so it has the version itself.
    return ViewResult([row], {key.name: row["version"]})


async def projects_of(store: Store, sessions: Sequence[str]) -> dict[str, str | None]:
    """Return the projects of the sessions that were projected already; a session's project never changes."""
    keys = [StreamKey("session", session) for session in sessions]
    rows = await asyncio.gather(*(store.view_field(SESSIONS, store.partition_of(key), key.id) for key in keys))
    return {key.id: _decoded(row)["project"] for key, row in zip(keys, rows, strict=True) if row is not None}


async def timeline(store: Store, session: str, after: int = 0, count: int = TIMELINE_PAGE_COUNT) -> ViewResult:
    """Return the lines of a session's timeline after a version, in order; at most `count`."""
    key = StreamKey("session", session)
    partition = store.partition_of(key)
    head = await store.view_field(HEADS, partition, key.name)
    version = 0 if head is None else Position.parse(head.decode()).version
    wanted = [str(one) for one in range(after + 1, min(after + count, version) + 1)]
    lines = await store.views.fields(timeline_view(session), partition, wanted)
    return ViewResult([_decoded(line) for line in lines if line is not None], {key.name: version})


async def sessions_of_request(store: Store, request_id: str) -> list[str]:
    """Return the sessions with a request id; a new request may not be listed yet."""
    return [parts_of(field)[1] for field in await store.views.starting(REQUESTS, field_of(request_id, ""))]


async def sessions_of_person(store: Store, name: str) -> set[str]:
    """Return the sessions in which a person has answered a request."""
    return {parts_of(field)[1] for field in await store.views.starting(PEOPLE, field_of(name, ""))}


async def stream_of_grant(store: Store, grant_id: str) -> StreamKey | None:
    """Return the stream of a grant, revoked ones included; a new grant may not be listed yet."""
    found = await store.views.starting(GRANTS, field_of(grant_id, ""))
    return StreamKey.parse(parts_of(found[0])[1]) if found else None


async def decisions(store: Store) -> dict[str, int]:
    """Return the counts of asks by decision label of CONTRACT's metric; each ask counts once."""
    total = await _summed(store, COUNTS)
    return {label: total[label] for label in DECISIONS}


async def notifications(store: Store) -> dict[tuple[str, str], int]:
    """Return the counts of notifications by service and result."""
    total = await _summed(store, NOTIFICATIONS)
    return {(parts_of(field)[0], parts_of(field)[1]): count for field, count in sorted(total.items())}


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


async def pending_count(store: Store) -> int:
    """Return the number of pending requests."""
    found = await asyncio.gather(*(store.view(PENDING, one) for one in range(store.partition_count)))
    return sum(map(len, found))


async def _summed(store: Store, view: str) -> Counter[str]:
    """Return a view of counts, summed over all partitions."""
    found = await asyncio.gather(*(store.view(view, one) for one in range(store.partition_count)))
    total: Counter[str] = Counter()
    for counts in found:
        total.update({field: int(value) for field, value in counts.items()})
    return total


class Histogram(msgspec.Struct, frozen=True):
    """Counts of values by bucket, each with its upper bound (in s, None: no bound), and the sum of all values in s."""

    buckets: tuple[tuple[float | None, int], ...]
    sum_seconds: float


async def histograms(store: Store) -> dict[str, Histogram]:
    """Return the histograms of request durations by decision, and of the lateness of expiries as `lateness`."""
    total = await _summed(store, DURATIONS)
    bounds = dict.fromkeys(DECISIONS, DURATION_BUCKETS_MS) | {LATENESS: LATENESS_BUCKETS_MS}
    return {what: _histogram(what, known, total) for what, known in bounds.items()}


def _histogram(what: str, bounds: Sequence[int], total: Mapping[str, int]) -> Histogram:
    finite = [(bound / 1000, total.get(field_of(what, str(bound)), 0)) for bound in bounds]
    beyond = (None, total.get(field_of(what, INFINITE), 0))
    return Histogram((*finite, beyond), total.get(field_of(what, SUM), 0) / 1000)


async def versions(store: Store) -> dict[str, int]:
    """Return the version that the views of each stream are as of, by stream name."""
    found = await asyncio.gather(*(store.view(HEADS, one) for one in range(store.partition_count)))
    return {name: version for heads in found for name, version in _versions(heads).items()}


def _joined(readings: Iterable[ViewResult]) -> ViewResult:
    rows: list[Row] = []
    as_of: dict[str, int] = {}
    for one in readings:
        rows += one.rows
        as_of.update(one.as_of)
    return ViewResult(rows, as_of)


def _decoded(value: bytes) -> Row:
    row: Row = msgspec.json.decode(value)
    return row


def _versions(heads: Mapping[str, bytes]) -> dict[str, int]:
    return {name: Position.parse(value.decode()).version for name, value in heads.items()}


def _only(heads: Mapping[str, bytes], key: StreamKey) -> dict[str, int]:
    return {key.name: _versions(heads).get(key.name, 0)}


def _by_deadline(row: Row) -> tuple[bool, str, str, int]:
    return row["deadline"] is None, row["deadline"] or "", row["session"], row["version"]
