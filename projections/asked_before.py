"""The requests of a project that waited for a person, read from its sessions where there is no index of requests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final, TypeAlias

from msgspec.structs import replace

from ledger.client.why import PastRequest, PastRequests
from ledger.log.streams import Streams
from ledger.log.surveys import survey
from ledger.session.state import Request, SessionState
from ledger.stores.port import StreamKey
from ledger.stores.store import Store
from projections.session_list import SessionList

SESSIONS_COUNT: Final = 50
"""Sessions, at most, that are read."""

MaySee: TypeAlias = Callable[[str, str | None, str | None], bool]
"""A condition on a session: its id, its project, and the token that opened it."""


async def asked_before(
    store: Store, streams: Streams, state: SessionState, *, since_ms: int, count: int, may_see: MaySee
) -> PastRequests:
    """Return at most `count` requests of a session's project since a server time (ms) that waited for a person.

    Of a session without a project, its own. Raises StoreError.
    """
    project = state.project
    if project is None:
        return await _in_sessions(streams, [state.session_id], since_ms=since_ms, count=count, may_see=may_see)
    async for page in SessionList(store, streams, project=project).pages(None, SESSIONS_COUNT):
        sessions = [str(one.row["session"]) for one in page.rows]
        found = await _in_sessions(streams, sessions, since_ms=since_ms, count=count, may_see=may_see)
        has_more = page.cursor is not None or bool(page.problems)
        return PastRequests(
            found=found.found, source="log", since_ms=since_ms, is_cut=found.is_cut or (has_more and bool(found.found))
        )
    return PastRequests(found=(), source="log", since_ms=since_ms)


async def _in_sessions(
    streams: Streams, sessions: list[str], *, since_ms: int, count: int, may_see: MaySee
) -> PastRequests:
    keys = [StreamKey("session", one) for one in sessions]
    states = await survey(keys, lambda key: streams.session(key.id).refresh())
    visible = [one for one in states.rows if may_see(one.session_id, one.project, one.token_id)]
    found = [one for state in visible for one in islice(_asked_in(state, since_ms), count + 1)]
    found.sort(key=lambda one: (one.asked_ms, one.session, one.version), reverse=True)
    return PastRequests(
        found=tuple(found[:count]), source="log", since_ms=since_ms, is_cut=len(found) > count or bool(states.problems)
    )


def _asked_in(state: SessionState, since_ms: int) -> Iterator[PastRequest]:
    """Iterate over the requests of a session that waited for a person: what is pending, then the newest settled."""
    for request in state.pending.values():
        if request.asked_ms >= since_ms:
            yield _past(state, request)
    for settled in state.settled.newest():
        if settled.at_ms < since_ms:
            return
        request = settled.request
        if request.asked_ms >= since_ms and settled.version != request.version:
            by = settled.by.name if settled.reply is not None and settled.cause is None else None
            yield replace(_past(state, request), outcome=settled.outcome, by=by)


def _past(state: SessionState, request: Request) -> PastRequest:
    return PastRequest(
        session=state.session_id, request_id=request.request_id, version=request.version, asked_ms=request.asked_ms
    )
