"""Queries of the tests, which read views whole. Each result has the version of each stream that it is as of."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec

from ledger.core.times import parse_time
from ledger.log.places import parts_of
from ledger.stores.port import CHECKPOINTS_VIEW, StreamKey, checkpoint_in
from ledger.stores.store import Store
from projections.queries import Row, latest_sessions, session_summaries
from projections.views import APPROVED, PENDING


class ViewResult(msgspec.Struct, frozen=True):
    """Rows, and the version that they are as of for each source stream by name (`session:ses_1`)."""

    rows: list[Row]
    as_of: dict[str, int]

    def version_of(self, key: StreamKey) -> int:
        """Return the version of a stream; 0 if it was not projected yet."""
        return self.as_of.get(key.name, 0)


async def pending(store: Store) -> ViewResult:
    """Return the pending requests of all sessions, nearest deadline first; those that never expire come last."""
    found = await _all_partitions(store, PENDING, CHECKPOINTS_VIEW)
    rows = [_decoded(value) for views in found for value in views[PENDING].values()]
    sessions = {StreamKey("session", one["session"]).name for one in rows}
    held = (_versions(views[CHECKPOINTS_VIEW]) for views in found)
    as_of = {name: version for one in held for name, version in one.items() if name in sessions}
    return ViewResult(sorted(rows, key=_by_deadline), as_of)


async def pending_of(store: Store, session: str) -> ViewResult:
    """Return the pending requests of a session, in order of asking."""
    key = StreamKey("session", session)
    views = await store.read_views(key.partition(store.partition_count), (PENDING, CHECKPOINTS_VIEW))
    rows = [_decoded(value) for field, value in views[PENDING].items() if parts_of(field)[0] == session]
    return ViewResult(sorted(rows, key=lambda one: one["version"]), _only(views[CHECKPOINTS_VIEW], key))


async def approved_of(store: Store, key: StreamKey, now_ms: int) -> ViewResult:
    """Return the grants of one session or project stream that are in force at a server time (ms), oldest first."""
    views = await store.read_views(key.partition(store.partition_count), (APPROVED, CHECKPOINTS_VIEW))
    rows = [_decoded(value) for field, value in views[APPROVED].items() if parts_of(field)[0] == key.name]
    live = [one for one in rows if one["expires_at"] is None or now_ms < parse_time(one["expires_at"])]
    ordered = sorted(live, key=lambda one: (one["at"], one["grant_id"]))
    return ViewResult(ordered, _only(views[CHECKPOINTS_VIEW], key))


async def recent_sessions(store: Store, count: int = 100) -> ViewResult:
    """Return the sessions with the newest events, newest first, each with counts of its `outcomes`."""
    rows = await session_summaries(store, [one.session for one in await latest_sessions(store, count)])
    return ViewResult(rows, {StreamKey("session", row["session"]).name: row["version"] for row in rows})


async def versions(store: Store) -> dict[str, int]:
    """Return the version that the views of each stream are as of, by stream name."""
    found = await _all_partitions(store, CHECKPOINTS_VIEW)
    return {name: one for views in found for name, one in _versions(views[CHECKPOINTS_VIEW]).items()}


async def _all_partitions(store: Store, *names: str) -> list[dict[str, Mapping[str, bytes]]]:
    return await asyncio.gather(*(store.read_views(one, names) for one in range(store.partition_count)))


def _decoded(value: bytes) -> dict[str, Any]:
    row: dict[str, Any] = msgspec.json.decode(value)
    return row


def _versions(checkpoints: Mapping[str, bytes]) -> dict[str, int]:
    return {name: checkpoint_in(value).version for name, value in checkpoints.items()}


def _only(checkpoints: Mapping[str, bytes], key: StreamKey) -> dict[str, int]:
    return {key.name: _versions(checkpoints).get(key.name, 0)}


def _by_deadline(row: Row) -> tuple[bool, str, str, int]:
    return row["deadline"] is None, row["deadline"] or "", row["session"], row["version"]
