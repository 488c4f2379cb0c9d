"""View `people`: the sessions in which each person has answered a request, to find past sessions by person.

An answer that was only reported by an agent's side is not listed: its author is the agent.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ledger.core.events import Replied
from ledger.core.grants import Recorded
from ledger.log.places import field_of
from ledger.stores.port import StreamKey, ViewWrite
from projections.projection import StreamState, listed

PEOPLE: Final = "people"


def project_people(key: StreamKey, before: StreamState, recorded: Recorded, after: StreamState) -> Iterator[ViewWrite]:
    event = recorded.event
    if key.kind == "session" and isinstance(event, Replied) and event.cause is None and event.told is None:
        yield listed(PEOPLE, field_of(recorded.actor.name, key.id))
