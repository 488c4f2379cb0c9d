"""View `people`: the sessions in which each person has answered a request, to find past sessions by person.

An answer that was only reported by an agent's side is not listed: its author is the agent.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ledger.core.events import Replied
from ledger.log.places import field_of
from ledger.stores.port import StreamKey, ViewWrite
from projections.projection import Seen, listed

PEOPLE: Final = "people"


def project_people(key: StreamKey, seen: Seen) -> Iterator[ViewWrite]:
    event = seen.recorded.event
    if key.kind == "session" and isinstance(event, Replied) and event.cause is None and event.told is None:
        yield listed(PEOPLE, field_of(seen.recorded.actor.name, key.id))
