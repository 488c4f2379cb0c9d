"""Past requests of a project that waited for a person, from the index of requests."""

from __future__ import annotations

from typing import Final

import msgspec

from ledger.client.why import PastRequest, PastRequests
from ledger.session.state import SessionState
from projections.asked_before import MaySee
from workers.indexer.facts import FactKind
from workers.indexer.query import SearchQuery
from workers.indexer.reader import FoundRequest, IndexReader

ROUNDS_COUNT: Final = 10
"""Reads of the index for one answer; each examines a bounded number of rows."""


def asked_in_index(
    index: IndexReader, state: SessionState, *, since_ms: int, count: int, may_see: MaySee
) -> PastRequests:
    """Return at most `count` requests of a session's project since a server time (ms) that waited for a person.

    Of a session without a project, its own. Raises SetupError.
    """
    fact: tuple[FactKind, str] = ("session", state.session_id) if state.project is None else ("project", state.project)
    query, found = SearchQuery(since_ms=since_ms, facts=(fact,)), list[FoundRequest]()
    is_cut = False
    for _ in range(ROUNDS_COUNT):
        page = index.search(query, count - len(found), may_see=lambda one: _is_wanted(one, state, may_see))
        found += page.found
        is_cut = page.cursor is not None
        if page.cursor is None or len(found) == count:
            break
        query = msgspec.structs.replace(query, before=int(page.cursor))
    return PastRequests(
        found=tuple(map(_past, found)),
        source="index",
        since_ms=since_ms,
        is_cut=is_cut,
    )


def _is_wanted(one: FoundRequest, state: SessionState, may_see: MaySee) -> bool:
    """Return whether a request of exactly this project waited for a person: it is pending, or ended after its ask.

    The words of the index do not tell upper case from lower case.
    """
    is_here = one.request.session == state.session_id if state.project is None else one.project == state.project
    waited = one.request.ended_version != one.request.version
    return is_here and waited and may_see(one.request.session, one.project, one.token_id)


def _past(one: FoundRequest) -> PastRequest:
    row = one.request
    return PastRequest(
        session=row.session,
        request_id=row.request_id,
        version=row.version,
        asked_ms=row.asked_ms,
        outcome=None if row.outcome == "pending" else row.outcome,
        by=row.answered_by if row.reply is not None else None,
    )
