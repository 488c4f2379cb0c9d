"""Views `people-0` to `people-3`: the sessions in which each person has answered, to find past sessions by person.

An answer that was only reported by an agent's side is not listed: its author is the agent.
"""

from __future__ import annotations

from collections.abc import Iterator

from ledger.core.codec import NewerEvent
from ledger.core.events import Agreed, Event, Replied
from ledger.log.divided import PEOPLE_VIEW
from ledger.log.places import field_of
from ledger.stores.port import StreamKey, ViewWrite
from projections.projection import Seen, listed


def _is_own_answer(event: Event | NewerEvent) -> bool:
    if isinstance(event, Agreed):
        return True
    return isinstance(event, Replied) and event.is_own


def project_people(key: StreamKey, seen: Seen) -> Iterator[ViewWrite]:
    event = seen.recorded.event
    if key.kind == "session" and _is_own_answer(event):
        yield listed(PEOPLE_VIEW.of(key.id), field_of(seen.recorded.actor.name, key.id))
