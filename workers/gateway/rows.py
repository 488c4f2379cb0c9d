"""The rows in responses: CONTRACT's objects, and the fields around them."""

from __future__ import annotations

from typing import Any

import msgspec

from ledger import Ledger
from ledger.client.results import Pending, Result
from ledger.session.decision import records_clients
from ledger.session.signed_claims import always_scope
from ledger.session.state import SessionState
from ledger.session.texts import decider_of
from projections.sessions import summary_of
from workers.gateway.descriptions import described
from workers.presentation.moments import online

Row = dict[str, Any]


async def session_row_now(ledger: Ledger, state: SessionState) -> Row:
    """Return the row of a session, and who is online in it by leases; None if that is unknown."""
    return {**session_row(state), "clients": await online(ledger, state)}


def session_row(state: SessionState) -> Row:
    """Return the summary of a session, and its settings."""
    return {
        **summary_of(state),
        "lock": state.lock if records_clients(state) else None,
        "policy_digest": state.policy_digest,
        "settings": msgspec.to_builtins(state.settings),
        "cwd": state.cwd,
    }


def answering_facts(state: SessionState) -> Row:
    """Return what a person needs beside a pending request to see the effect of an answer."""
    return {
        "dialect": state.dialect or None,
        "always_scope": "session" if state.project is None else always_scope(state),
        "cascade_reject": state.settings.cascade_reject,
        "answering": state.settings.answering,
        "extending": state.settings.extending,
    }


def result_row(result: Result, *, is_described: bool = True) -> Row:
    """Return the state of a request: CONTRACT's row of ask and reply, the request, and fields that bridges need.

    `feedback` is a person's own text, without the dialect's frame; `cause` is the event that led to the outcome;
    `cancel_cause` is the reason of a withdrawal; `via` is the channel of the answer as observed by the gateway; `told`
    is the agent's prompt where only the agent reports the answer; `decided_by` is what decided without an answer. The
    description is for people: agents, and readers of the rules' decisions, do not get it.
    """
    request = Pending(session=result.session, request=result.request)
    settled = result.settled
    return {
        **result.as_json(),
        "updated_input": result.updated_input,
        "feedback": settled.message if settled is not None and result.outcome == "corrected" else None,
        "via": None if settled is None else settled.by.via,
        "decided_by": None if settled is None else decider_of(settled),
        "cause": None if settled is None else msgspec.to_builtins(settled.cause),
        "cancel_cause": None if settled is None else settled.cancel_cause,
        "request": described(request) if is_described else request.as_json(),
    }
