"""The reason for a request and the grants that would have answered it, as one person may see them."""

from __future__ import annotations

import logging
from typing import Final

from ledger.client.why import Answerer, PastRequests, WhyAsked, advice_asked, explain_request
from ledger.core.durations import DAY_MS
from ledger.core.errors import LedgerError, StoreError
from ledger.session.state import SessionState
from projections.asked_before import asked_before
from workers.gateway.gateway import Gateway
from workers.gateway.principals import Principal
from workers.gateway.rows import Row
from workers.presentation.why import LOOK_BACK_DAYS, LOOKED_AT_COUNT, why_json

log = logging.getLogger(__name__)

RULE_SECONDS: Final = 2.0
"""Processor time for the search of a rule, spent beside the loop."""


async def why_row(gateway: Gateway, principal: Principal, session: str, request_id: str) -> Row:
    """Return the reason for a request within reach. Raises what `explain_request` raises."""
    found = await gateway.session(session, principal)
    state = await found.state()
    by = Answerer(principal.actor, principal.role)
    async with gateway.judging_the_past:
        past = await _past(gateway, principal, state)
        why = await explain_request(gateway.ledger, found, request_id, past, by)
    for choice in why.choices:
        for example in choice.reached.examples:
            gateway.reads.look(principal, example.request.session)
    row = why_json(why, await _rule(gateway, principal, why))
    if state.project is None or not principal.reaches_project(state.project):
        row["scope"] = "session"
    return row


async def _past(gateway: Gateway, principal: Principal, state: SessionState) -> PastRequests:
    """Return past requests of the session's project, or of the session where it has none."""
    since_ms = gateway.now_ms - LOOK_BACK_DAYS * DAY_MS
    found = await gateway.search.asked_before(principal, state, since_ms=since_ms, count=LOOKED_AT_COUNT)
    if found is not None:
        return found
    ledger = gateway.ledger
    return await asked_before(
        ledger.store, ledger.streams, state, since_ms=since_ms, count=LOOKED_AT_COUNT, may_see=principal.reaches
    )


async def _rule(gateway: Gateway, principal: Principal, why: WhyAsked) -> Row | None:
    """Return the smallest rule for a file; None where there is none, or the search for it takes too long."""
    asked = advice_asked(why)
    if asked is None:
        return None
    try:
        found: Row | None = await gateway.beside.run(principal.caller, "advise", asked, seconds=RULE_SECONDS)
    except StoreError:
        raise
    except LedgerError as error:
        log.debug("no rule for request %s: %s", why.pending.request.request_id, error)
        return None
    return found
