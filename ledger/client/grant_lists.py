"""The grants in force of projects and of everything, with the last use of each as the sessions tell it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from ledger.client.grant_uses import last_uses
from ledger.client.results import Approved, approved_in_session
from ledger.log.surveys import Survey, survey
from ledger.session.state import SessionState
from ledger.stores.port import StreamKey

if TYPE_CHECKING:
    from ledger.client.ledger import Ledger

_LastUses = Mapping[tuple[str, str], int]
"""The last uses (server ms) by project and grant."""


class _StreamGrants(NamedTuple):
    """The grants in force of one stream, and the last uses that a session made of its project's grants."""

    rows: list[Approved]
    used: _LastUses


async def grants_anywhere(ledger: Ledger) -> Survey[Approved]:
    """Return the grants in force in all projects and sessions, in order of creation, and the streams not read."""

    async def read(key: StreamKey) -> _StreamGrants:
        if key.kind == "project":
            return _StreamGrants(await ledger.approved_in_project(key.id), {})
        state = await ledger.streams.session(key.id).refresh()
        return _StreamGrants(approved_in_session(state, ledger.store.clock.now_ms()), _used_in(state))

    each = await survey([key async for key in ledger.store.streams() if key.kind != "access"], read)
    found = _with_last_uses((one for some in each.rows for one in some.rows), [some.used for some in each.rows])
    return Survey(sorted(found, key=lambda one: (one.grant.at_ms, one.grant.grant_id)), each.problems)


async def grants_in_project(ledger: Ledger, project: str) -> Survey[Approved]:
    """Return the grants in force in a project, and the sessions not read.

    All sessions are read where a grant has no limit of uses: its uses are in the sessions alone.
    """
    own = await ledger.approved_in_project(project)
    if all(one.grant.uses is not None for one in own):
        return Survey(own, [])

    async def read(key: StreamKey) -> _LastUses:
        return _used_in(await ledger.streams.session(key.id).refresh())

    each = await survey([key async for key in ledger.store.streams() if key.kind == "session"], read)
    return Survey(_with_last_uses(own, each.rows), each.problems)


def _used_in(state: SessionState) -> _LastUses:
    if state.project is None:
        return {}
    return {(state.project, grant_id): ms for grant_id, ms in last_uses(state).items()}


def _with_last_uses(rows: Iterable[Approved], used: Iterable[_LastUses]) -> list[Approved]:
    """Return the grants, those of projects with the latest of these uses; others know their own."""
    latest: dict[tuple[str, str], int] = {}
    for uses in used:
        for place, ms in uses.items():
            latest[place] = max(latest.get(place, 0), ms)
    return [
        replace(one, known_last_use_ms=latest.get((one.project or "", one.grant.grant_id)))
        if one.grant.scope == "project"
        else one
        for one in rows
    ]
