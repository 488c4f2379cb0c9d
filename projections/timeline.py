"""The timeline of a session: one line for each event, for people. It is made from the log when it is read."""

from __future__ import annotations

from typing import Any

from ledger.core.codec import NewerEvent
from ledger.core.events import event_type
from ledger.core.grants import Recorded
from ledger.core.times import format_time
from ledger.log.history_cache import HistoryCache
from ledger.session.state import SessionState
from ledger.stores.port import StreamKey
from projections.sentences import sentence_of


async def timeline_page(history: HistoryCache, session: str, after: int, count: int) -> list[dict[str, Any]]:
    """Return the lines of a session's events after a version, in order; at most `count`. Raises DamageError."""
    passed = await history.passed(StreamKey("session", session), after, count)
    return [line_of(one.recorded, one.before) for one in passed]


def line_of(recorded: Recorded, before: SessionState) -> dict[str, Any]:
    """Return the line of an event; `before` is the state before it."""
    event, actor = recorded.event, recorded.actor
    return {
        "version": recorded.version,
        "at": format_time(recorded.ms),
        "type": event.event_type if isinstance(event, NewerEvent) else event_type(event),
        "actor": {
            "kind": actor.kind,
            "name": actor.name,
            "via": actor.via,
            **({} if actor.made_by is None else {"made_by": actor.made_by}),
        },
        "text": sentence_of(recorded, before),
        "request_id": getattr(event, "request_id", None),
    }
