"""View `people`: in which sessions a person has answered something, so that past sessions can be found by person.

An answer that an agent's side only told of is nobody's here: its author is the agent.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ledger.core.events import Replied
from ledger.core.grants import Recorded
from ledger.stores.port import StreamKey, ViewWrite
from projections.projection import State, field_of, listed

PEOPLE: Final = "people"


def project_people(key: StreamKey, before: State, recorded: Recorded, after: State) -> Iterator[ViewWrite]:
    event = recorded.event
    if key.kind == "session" and isinstance(event, Replied) and event.cause is None and event.told is None:
        yield listed(PEOPLE, field_of(recorded.actor.name, key.id))
