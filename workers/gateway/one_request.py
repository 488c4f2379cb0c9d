"""One request found by its id alone: pending as in the inbox, or settled with what was asked and how it ended."""

from __future__ import annotations

from ledger.client.results import Pending, result_of
from ledger.core.errors import LedgerError
from ledger.core.times import format_time_or_none
from ledger.log.askers import gone_anywhere
from ledger.session.state import Request, SessionState
from ledger.stores.port import StreamKey
from workers.gateway.descriptions import described
from workers.gateway.gateway import Gateway
from workers.gateway.inboxes import lineage
from workers.gateway.principals import Principal
from workers.gateway.rows import Row, answering_facts, result_row


async def find_by_id(gateway: Gateway, principal: Principal, request_id: str, session: str | None) -> Row:
    """Return the requests of this id in the sessions within reach: none, one, or several under the same id.

    Sessions that cannot be read, and those out of reach, are left out alike.
    """
    found = [
        await _row(gateway, principal, state, request_id)
        for state in await _states(gateway, principal, request_id, session)
    ]
    return {
        "request_id": request_id,
        "requests": sorted(found, key=lambda row: (row["outcome"] is not None, row["session"])),
    }


async def _states(gateway: Gateway, principal: Principal, request_id: str, session: str | None) -> list[SessionState]:
    if session is None:
        states = (await gateway.ledger.lookups.of_request(request_id)).rows
    else:
        try:
            states = [(await gateway.session(session, principal, fresh=True)).stream.state]
        except LedgerError as error:
            if error.code not in ("INPUT", "UNKNOWN_SESSION"):
                raise
            states = []
    known = [one for one in states if one.find(request_id) is not None and principal.reaches_state(one)]
    for one in known:
        gateway.reads.look(principal, one.session_id)
    return known


async def _row(gateway: Gateway, principal: Principal, state: SessionState, request_id: str) -> Row:
    result = result_of(state, request_id)
    asked = result.request if result.outcome is None else await _as_asked(gateway, state, result.request)
    gone = await gone_anywhere(gateway.ledger.store, [state.session_id]) if result.outcome is None else {}
    held = None if result.settled is None else result.settled.claim
    return {
        **result_row(result, is_described=False),
        "request": {
            **described(Pending(session=state.session_id, request=asked)),
            "asker_gone_at": format_time_or_none(gone.get((state.session_id, request_id))),
            "project": state.project,
            "lineage": await lineage(gateway, principal, state),
            **answering_facts(state),
        },
        "ran": result.settled is not None and (result.settled.finished or result.request.ran),
        "claim_ended_at": None if held is None else format_time_or_none(held.ended_ms),
    }


async def _as_asked(gateway: Gateway, state: SessionState, request: Request) -> Request:
    """Return a settled request with all that was shown when it was asked last, which only the log has."""
    key = StreamKey("session", state.session_id)
    gateway.history_cache.forget_before(key, state.redacted_version)
    version = request.reopened_versions[-1] if request.reopened_versions else request.version
    moment = await gateway.history_cache.state_at(key, version=version)
    whole: Request | None = moment.state.pending.get(request.request_id)
    return request if whole is None else whole
