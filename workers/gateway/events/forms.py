"""How events are written: as server-sent events with ids that a reader can resume from. Pure."""

from __future__ import annotations

from typing import Any, Final, Protocol

import msgspec

from ledger.session.state import Request, SessionState
from workers.gateway.events.frames import replay_row
from workers.gateway.events.ring import Item

RETRY_MS: Final = 1000
"""How long a browser waits until it connects again."""


class Form(Protocol):
    """What a kind of reader is written; `name` tells the forms apart."""

    @property
    def name(self) -> str: ...

    def begin(self) -> bytes: ...

    def event(self, item: Item) -> bytes:
        """An event with the place after it; nothing for what such readers are not told."""
        ...

    def replay(self, state: SessionState, request: Request, lineage: tuple[str, ...]) -> bytes:
        """A request that was pending before the reader came."""
        ...

    def snapshot_end(self, place: str, count: int) -> bytes:
        """That what comes from here on is new."""
        ...

    def heartbeat(self, place: str) -> bytes: ...

    def resync(self, reason: str) -> bytes:
        """That a new snapshot follows."""
        ...

    def end(self, name: str, reason: str) -> bytes:
        """The last event of all."""
        ...


class EventForm:
    """Ours: `id`, `event` and `data`."""

    name = "events"

    def begin(self) -> bytes:
        return b"retry: %d\n\n" % RETRY_MS

    def event(self, item: Item) -> bytes:
        if item.frame is None:
            return b""
        return b"id: %s\nevent: %s\ndata: %s\n\n" % (item.place.encode(), item.frame.name.encode(), item.frame.data)

    def replay(self, state: SessionState, request: Request, lineage: tuple[str, ...]) -> bytes:
        return _named("permission.asked", replay_row(state, request, lineage))

    def snapshot_end(self, place: str, count: int) -> bytes:
        # A reader cut off within the snapshot has no id, and is sent all of it again.
        return b"id: %s\n" % place.encode() + _named("snapshot.end", {"pending": count})

    def heartbeat(self, place: str) -> bytes:
        """Also moves the reader's place on, past all that was not for it; without data it makes no event."""
        return b": heartbeat\nid: %s\n\n" % place.encode()

    def resync(self, reason: str) -> bytes:
        return _named("resync", {"reason": reason})

    def end(self, name: str, reason: str) -> bytes:
        # An empty id makes a browser forget the one it has, which the log does not know any more.
        return (b"id:\n" if name == "resync" else b"") + _named(name, {"reason": reason})


def _named(name: str, data: Any) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (name.encode(), msgspec.json.encode(data))
