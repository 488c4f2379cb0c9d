"""Pending requests by session, session tree, project or agent, nearest deadline first."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from ledger.client.results import Pending, pending_of
from ledger.core.errors import DamageError
from ledger.core.times import format_time_or_none
from ledger.log.askers import gone_anywhere
from ledger.log.surveys import StreamProblem
from ledger.session.state import SessionState
from ledger.stores.port import StreamKey
from workers.gateway.descriptions import described
from workers.gateway.gateway import Gateway
from workers.gateway.principals import Principal
from workers.gateway.rows import Row, answering_facts

PENDING_COUNT_MAX: Final = 5000
AT_ONCE_SECONDS: Final = 0.01
"""Time for making rows before other tasks run."""

DEPTH_MAX: Final = 32
"""Levels of parent sessions that are followed."""


class PendingFilter(msgspec.Struct, frozen=True, kw_only=True):
    session: str | None = None
    tree: str | None = None
    project: str | None = None
    agent: str | None = None
    gone: bool = False
    """Select only requests whose asker is gone."""


async def find_pending(gateway: Gateway, principal: Principal, wanted: PendingFilter, limit: int) -> Row:
    """Return the rows, each with its project and its lineage (the root first), and the total count."""
    waiting = await gateway.ledger.waiting.survey()
    found: list[_Found] = []
    for state in waiting.rows:
        if not principal.reaches_state(state) or not _wanted(state, wanted):
            continue
        above = await lineage(gateway, principal, state)
        if wanted.tree is not None and wanted.tree not in (*above, state.session_id):
            continue
        for one in pending_of(state):
            if wanted.agent in (None, one.request.agent, state.agent):
                deadline = one.request.deadline_ms
                order = (deadline is None, deadline or 0, one.request.asked_ms, state.session_id, one.request.version)
                found.append(_Found(order, one, state, above))
    found.sort(key=lambda one: one.order)
    shown = found if wanted.gone else found[:limit]
    gone = await gone_anywhere(gateway.ledger.store, {one.state.session_id for one in shown})
    if wanted.gone:
        found = [one for one in found if _place(one) in gone]
    problems = problem_rows(principal, waiting.problems)
    return {"pending": await _rows(found[:limit], gone), "count": len(found), "problems": problems}


class _Found(NamedTuple):
    order: tuple[bool, int, int, str, int]
    pending: Pending
    state: SessionState
    above: list[str]


def _place(found: _Found) -> tuple[str, str]:
    return found.state.session_id, found.pending.request.request_id


async def _rows(found: Sequence[_Found], gone: Mapping[tuple[str, str], int]) -> list[Row]:
    """Return rows of the selected requests only. Describing a long call is slow, so other tasks run in between."""
    rows: list[Row] = []
    until = time.monotonic() + AT_ONCE_SECONDS
    for one in found:
        gone_ms = gone.get(_place(one))
        place = {"asker_gone_at": format_time_or_none(gone_ms), "project": one.state.project, "lineage": one.above}
        rows.append({**described(one.pending), **place, **answering_facts(one.state)})
        if time.monotonic() > until:
            await asyncio.sleep(0)
            until = time.monotonic() + AT_ONCE_SECONDS
    return rows


def problem_rows(principal: Principal, problems: Sequence[StreamProblem]) -> list[Row]:
    """Return the streams that cannot be read and that the caller may see; their project is unknown."""
    return [one.as_json() for one in problems if _may_see(principal, one.key)]


def _may_see(principal: Principal, key: StreamKey) -> bool:
    return principal.reaches_project(key.id) if key.kind == "project" else principal.reaches(key.id, None, None)


def _wanted(state: SessionState, wanted: PendingFilter) -> bool:
    return wanted.session in (None, state.session_id) and wanted.project in (None, state.project)


async def lineage(gateway: Gateway, principal: Principal, state: SessionState) -> list[str]:
    """Return the sessions above this one that the caller may see, the root first.

    A session's parent never changes, so each is read once.
    """
    above: list[str] = []
    seen: set[str] = set()
    while state.parent is not None and state.parent not in seen and len(seen) < DEPTH_MAX:
        seen.add(state.parent)
        stream = gateway.ledger.streams.session(state.parent)
        try:
            state = stream.state if stream.folded else await stream.refresh()
        except DamageError:
            # The sessions above it are unknown; that is no reason to hide the requests below it.
            if principal.reaches(stream.key.id, None, None):
                above.append(stream.key.id)
            break
        if principal.reaches_state(state):
            above.append(state.session_id)
    return above[::-1]
