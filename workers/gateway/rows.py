"""What the routes answer with: CONTRACT's objects, and what stands around them."""

from __future__ import annotations

from typing import Any

import msgspec

from ledger.client.results import Pending, Result
from ledger.core.times import format_time
from ledger.session.state import Client, SessionState
from ledger.session.wanted import ALWAYS_SCOPE
from workers.gateway.descriptions import described

Row = dict[str, Any]


def session_row(state: SessionState) -> Row:
    """A session in a few words."""
    return {
        "session": state.session_id,
        "project": state.project,
        "agent": state.agent,
        "parent": state.parent,
        "dialect": state.policy.dialect if state.policy else None,
        "opened_at": _time(state.opened_ms),
        "closed_at": _time(state.closed_ms),
        "at": _time(state.last_ms),
        "version": state.version,
        "pending": len(state.pending),
        "clients": [_client(one) for one in sorted(state.clients.values(), key=lambda one: one.version)],
        "lock": state.lock,
        "policy_digest": state.policy_digest,
        "settings": msgspec.to_builtins(state.settings),
        "cwd": state.cwd,
        **({} if state.imported_ms is None else {"imported_at": _time(state.imported_ms)}),
    }


def answering_facts(state: SessionState) -> Row:
    """What a person needs beside a pending request, to see what an answer would do."""
    dialect = state.policy.dialect if state.policy else None
    return {
        "dialect": dialect,
        "always_scope": "session" if state.project is None else ALWAYS_SCOPE.get(dialect or "", "project"),
        "cascade_reject": state.settings.cascade_reject,
        "answering": state.settings.answering,
    }


def result_row(result: Result, *, is_described: bool = True) -> Row:
    """Where a request stands: CONTRACT's row of ask and reply, the request itself, and what bridges need beside it.

    `feedback` is a person's own words, without the dialect's around them; `cause` what it followed from, if it did;
    `cancel_cause` why it was withdrawn; `via` the channel by which it was answered, in the gateway's own word; `told`
    the prompt at which a person answered, where only the agent's side says so. The description is for people: agents,
    and readers of what the rules decided, are spared it.
    """
    request = Pending(session=result.session, request=result.request)
    settled = result.settled
    return {
        **result.as_json(),
        "updated_input": result.updated_input,
        "feedback": settled.message if settled is not None and result.outcome == "corrected" else None,
        "via": None if settled is None else settled.by.via,
        "cause": None if settled is None else msgspec.to_builtins(settled.cause),
        "cancel_cause": None if settled is None else settled.cancel_cause,
        "request": described(request) if is_described else request.as_json(),
    }


def _client(client: Client) -> Row:
    return {"client_id": client.client_id, "name": client.name, "since": format_time(client.since_ms)}


def _time(ms: int | None) -> str | None:
    return None if ms is None else format_time(ms)
