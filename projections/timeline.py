"""View `timeline:<session>`: one line for each event, for people; its field is the version."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from ledger.core.codec import NewerEvent
from ledger.core.events import event_type
from ledger.core.grants import Recorded
from ledger.core.times import format_time
from ledger.session.state import SessionState
from ledger.stores.port import StreamKey, ViewWrite
from projections.projection import StreamState, row
from projections.sentences import sentence_of

_PREFIX: Final = "timeline:"


def timeline_view(session: str) -> str:
    """Return the name of a session's view."""
    return _PREFIX + session


def timeline_session(view: str) -> str | None:
    """Return the session of a timeline view, or None for another view."""
    return view.removeprefix(_PREFIX) if view.startswith(_PREFIX) else None


def project_timeline(
    key: StreamKey, before: StreamState, recorded: Recorded, after: StreamState
) -> Iterator[ViewWrite]:
    if isinstance(before, SessionState):
        yield row(timeline_view(key.id), str(recorded.version), _line(recorded, before))


def _line(recorded: Recorded, before: SessionState) -> dict[str, Any]:
    event, actor = recorded.event, recorded.actor
    return {
        "version": recorded.version,
        "at": format_time(recorded.ms),
        "type": event.event_type if isinstance(event, NewerEvent) else event_type(event),
        "actor": {"kind": actor.kind, "name": actor.name, "via": actor.via},
        "text": sentence_of(recorded, before),
        "request_id": getattr(event, "request_id", None),
    }
