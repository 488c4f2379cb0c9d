"""The grants in force in pages as of the log, oldest first: read from the views, and from the unprojected streams of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from ledger.client.grant_uses import last_uses, used_field
from ledger.client.results import Approved, approved_in_project, approved_in_session
from ledger.core.grants import Grants
from ledger.core.times import format_time, parse_time
from ledger.log.places import ALL, APPROVED_VIEW, STANDING_VIEW, GrantPlace, field_of, parts_of, scope_of
from ledger.log.streams import Streams
from ledger.log.surveys import Listed, ListPage, Survey, Until, ViewPage, check_count, completed, survey
from ledger.log.viewed import USED_VIEW, fields_of_streams, unprojected
from ledger.project import ProjectState
from ledger.session.state import SessionState
from ledger.stores.port import StreamKey, WantedFields
from ledger.stores.store import Store

SCOPES_COUNT: Final = 8
"""Projects that are listed each by itself; beyond them, the list of all is read."""

Row = dict[str, Any]

Uses = Mapping[str, int]
"""The last uses (server ms) by the field of `USED_VIEW`."""


class _Unprojected(NamedTuple):
    """The content of a stream ahead of its views: its grants in force, and the last uses that it tells of."""

    rows: list[Approved]
    used: Uses


class GrantList:
    """The grants of all streams, or of some projects with their sessions; a closed session has none in force."""

    def __init__(self, store: Store, streams: Streams, *, projects: Sequence[str] = ()) -> None:
        self._store = store
        self._streams = streams
        few = 0 < len(projects) <= SCOPES_COUNT
        self._scopes = [scope_of("project", one) for one in projects] if few else [ALL]

    async def pages(self, after: GrantPlace | None, count: int) -> AsyncIterator[ListPage[Row]]:
        """Iterate over the grants after a place, in pages of at most about `count`. Raises StoreError."""
        unprojected, read = await self._unprojected()
        used = _latest(one.used for one in read.rows)
        fresh = [
            one for some in read.rows for one in map(listed, some.rows) if after is None or one.order > after.order
        ]
        fresh = await self._with_last_uses(fresh, used)
        async for page in completed(fresh, read.problems, self._of_views(unprojected, used, after, count)):
            yield page

    async def approved_pages(self, after: str | None, count: int) -> AsyncIterator[ListPage[Approved]]:
        """Iterate over the same after a cursor, with the grants of their streams. Raises InputError, StoreError."""
        start = None if after is None else GrantPlace.of_cursor(after)
        async for page in self.pages(start, check_count(count)):
            read = await self._grants_of(page.rows)
            yield ListPage(read.rows, page.problems + read.problems, page.cursor)

    async def _grants_of(self, rows: Sequence[Listed[Row]]) -> Survey[Listed[Approved]]:
        """Return the grants of these rows that are still in force; their streams are read."""
        keys = [StreamKey.parse(parts_of(one.order)[-1]) for one in rows]
        read = await survey(dict.fromkeys(keys), self._grants_in)
        standing = dict(read.rows)
        now_ms = self._store.clock.now_ms()
        found: list[Listed[Approved]] = []
        for key, one in zip(keys, rows, strict=True):
            grant = standing[key].get(one.row["grant_id"]) if key in standing else None
            if grant is not None and grant.in_force(now_ms):
                used = one.row["last_used_at"]
                approved = Approved(
                    grant=grant,
                    session=one.row["session"],
                    project=one.row["project"],
                    known_last_use_ms=None if used is None else parse_time(used),
                )
                found.append(Listed(one.order, one.cursor, approved))
        return Survey(found, read.problems)

    async def _grants_in(self, key: StreamKey) -> tuple[StreamKey, Grants]:
        of_project = key.kind == "project"
        state: SessionState | ProjectState = await (
            self._streams.project(key.id).refresh() if of_project else self._streams.session(key.id).refresh()
        )
        is_closed = isinstance(state, SessionState) and state.closed_ms is not None
        return key, Grants() if is_closed else state.grants

    async def last_uses(self, grants: Sequence[Approved]) -> Survey[Approved]:
        """Return grants with their last uses, and the streams that could not be read for them."""
        _, read = await self._unprojected()
        used = _latest(one.used for one in read.rows)
        fields = [field_of(_stream_of(one), one.grant.grant_id) for one in grants]
        known = await self._used(fields, used)
        return Survey(
            [
                msgspec.structs.replace(one, known_last_use_ms=known.get(field))
                for one, field in zip(grants, fields, strict=True)
            ],
            read.problems,
        )

    async def _unprojected(self) -> tuple[frozenset[str], Survey[_Unprojected]]:
        keys = sorted(key for key in await unprojected(self._store) if key.has_calls)
        return frozenset(key.name for key in keys), await survey(keys, self._read)

    async def _read(self, key: StreamKey) -> _Unprojected:
        now_ms = self._store.clock.now_ms()
        if key.kind == "project":
            return _Unprojected(approved_in_project(await self._streams.project(key.id).refresh(), now_ms), {})
        state = await self._streams.session(key.id).refresh()
        used = {used_field(state, grant_id): ms for grant_id, ms in last_uses(state).items()}
        return _Unprojected(approved_in_session(state, now_ms), used)

    async def _of_views(
        self, unprojected: frozenset[str], used: Uses, after: GrantPlace | None, count: int
    ) -> AsyncIterator[ViewPage[Row]]:
        """Iterate over the grants as the views list them, without those of unprojected streams."""
        while True:
            fields = await asyncio.gather(
                *(
                    self._store.view_page(STANDING_VIEW, scope, count, "" if after is None else scope + after.order)
                    for scope in self._scopes
                )
            )
            places = sorted({GrantPlace.of_field(field) for some in fields for field in some})[:count]
            rows = await self._rows([one for one in places if one.stream not in unprojected])
            is_last = len(places) < count
            yield ViewPage(
                await self._with_last_uses(rows, used),
                [],
                None if is_last else Until(places[-1].order, places[-1].cursor),
            )
            if is_last:
                return
            after = places[-1]

    async def _rows(self, places: Sequence[GrantPlace]) -> list[Listed[Row]]:
        """Return the grants at their places that are in force now."""
        wanted = [(StreamKey.parse(one.stream), field_of(one.stream, one.grant_id)) for one in places]
        values = await fields_of_streams(self._store, APPROVED_VIEW, wanted)
        now_ms = self._store.clock.now_ms()
        found = [
            Listed(place.order, place.cursor, msgspec.json.decode(value))
            for place, value in zip(places, values, strict=True)
            if value is not None
        ]
        return [one for one in found if (at := one.row["expires_at"]) is None or now_ms < parse_time(at)]

    async def _with_last_uses(self, rows: Sequence[Listed[Row]], used: Uses) -> list[Listed[Row]]:
        """Return rows with the last uses of grants without a limit; others have them in their rows."""
        fields = [field_of(parts_of(one.order)[-1], one.row["grant_id"]) for one in rows]
        unlimited = [field for field, one in zip(fields, rows, strict=True) if one.row["uses"] is None]
        known = await self._used(unlimited, used)
        return [
            one._replace(row={**one.row, "last_used_at": format_time(known[field])}) if field in known else one
            for field, one in zip(fields, rows, strict=True)
        ]

    async def _used(self, fields: Sequence[str], used: Uses) -> dict[str, int]:
        """Return the last uses of grants: as the views tell them, or streams that are ahead of them."""
        by_partition: dict[int, list[str]] = {}
        for field in fields:
            key = StreamKey.parse(parts_of(field)[0])
            own = (
                [key.partition(self._store.partition_count)]
                if key.kind == "session"
                else range(self._store.partition_count)
            )
            for partition in own:
                by_partition.setdefault(partition, []).append(field)
        wanted = [WantedFields(USED_VIEW, partition, some) for partition, some in by_partition.items()]
        found = await self._store.view_fields(wanted)
        of_views = (
            {field: int(value) for field, value in zip(some, values, strict=True) if value is not None}
            for some, values in zip(by_partition.values(), found, strict=True)
        )
        return _latest([*of_views, {field: used[field] for field in fields if field in used}])


def _stream_of(one: Approved) -> str:
    kind_is_project = one.grant.scope == "project"
    return (
        StreamKey("project", one.project or "") if kind_is_project else StreamKey("session", one.session or "")
    ).name


def listed(one: Approved) -> Listed[Row]:
    """Return a grant as a row of a list."""
    place = GrantPlace(one.grant.at_ms, one.grant.grant_id, _stream_of(one))
    return Listed(place.order, place.cursor, one.as_json())


def _latest(uses: Iterable[Uses]) -> dict[str, int]:
    found: dict[str, int] = {}
    for some in uses:
        for field, ms in some.items():
            found[field] = max(found.get(field, 0), ms)
    return found
