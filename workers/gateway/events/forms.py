"""Serialization of events: server-sent events with ids from which a reader can resume. Pure."""

from __future__ import annotations

from typing import Any, Final, Protocol

import msgspec

from ledger.session.state import Request, SessionState
from workers.gateway.events.frames import replay_row
from workers.gateway.events.ring import Item

RETRY_MS: Final = 1000
"""Delay before a browser reconnects."""


class StreamForm(Protocol):
    """The serialization for one kind of reader; `name` identifies it."""

    @property
    def name(self) -> str: ...

    def begin(self) -> bytes: ...

    def event(self, item: Item) -> bytes:
        """Return an event with the position after it; empty for an event that such readers do not get."""
        ...

    def replay(self, state: SessionState, request: Request, lineage: tuple[str, ...]) -> bytes:
        """Return a request that was pending before the reader connected."""
        ...

    def snapshot_end(self, place: str, count: int) -> bytes:
        """Return the event that ends the snapshot."""
        ...

    def heartbeat(self, place: str) -> bytes: ...

    def resync(self, reason: str) -> bytes:
        """Return the event that announces a new snapshot."""
        ...

    def end(self, name: str, reason: str) -> bytes:
        """Return the last event of the stream."""
        ...


class EventForm:
    """Our own form: `id`, `event` and `data`."""

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
        # A reader cut off within the snapshot has no id, and gets the whole snapshot again.
        return b"id: %s\n" % place.encode() + _named("snapshot.end", {"pending": count})

    def heartbeat(self, place: str) -> bytes:
        """Return an event without data, which browsers ignore; its id moves the reader past filtered events."""
        return b": heartbeat\nid: %s\n\n" % place.encode()

    def resync(self, reason: str) -> bytes:
        return _named("resync", {"reason": reason})

    def end(self, name: str, reason: str) -> bytes:
        # An empty id makes a browser forget its last one, which the log no longer has.
        return (b"id:\n" if name == "resync" else b"") + _named(name, {"reason": reason})


def _named(name: str, data: Any) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (name.encode(), msgspec.json.encode(data))
