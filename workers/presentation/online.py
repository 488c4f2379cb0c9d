"""The clients of a session as rows: those that are online by their leases, and those on record at a moment."""

from __future__ import annotations

from typing import Any

from ledger import Ledger
from ledger.core.times import format_time, format_time_or_none
from ledger.session.state import Client, SessionState

Row = dict[str, Any]


async def online(ledger: Ledger, state: SessionState) -> list[Row] | None:
    """Return the clients that are online now: in this session, and in inboxes that reach it; None if unknown.

    `since` is the time of a recorded connection, None for a client that is not on record.
    """
    live = await ledger.streams.session_fold.live(state, ledger.store.clock.now_ms())
    if not live.is_known:
        return None
    known = state.clients
    since_ms = {one.client_id: known[one.client_id].since_ms for one in live.all() if one.client_id in known}
    return [
        {
            "client_id": one.client_id,
            "name": one.name,
            "since": format_time_or_none(since_ms.get(one.client_id)),
        }
        for one in live.all()
    ]


def on_record(state: SessionState) -> list[Row]:
    """Return the clients whose connection an event records, and no later event their end, in order of connecting."""
    return [_recorded(one) for one in sorted(state.clients.values(), key=lambda one: (one.version, one.client_id))]


def _recorded(client: Client) -> Row:
    return {"client_id": client.client_id, "name": client.name, "since": format_time(client.since_ms)}
