"""Ids of events: positions of a reader. Pure.

Of a session: `<ms>-<version>`, the entry's own id; `.<part>` follows while more events of the same entry are to come. Any
gateway resumes after it, from the log.

Of the whole ledger, which has no order of its own: `<run>.<number>`, the number of the event in the ring of one run of a
gateway, in hexadecimal. That run resumes after it while its ring has the next event; any other id gets a snapshot.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from ledger.core.errors import InputError
from ledger.stores.port import Position

_SESSION_ID: Final = re.compile(r"(\d{1,15})-(\d{1,15})(?:\.(\d{1,9}))?", re.ASCII)
_FEED_ID: Final = re.compile(r"([0-9a-f]{8,16})\.([0-9a-f]{1,13})(?:\.[0-9a-f._-]{1,32768})?")
"""Ids of version 0.2 go on after a second dot, and count as those of a run that has ended."""


class SessionCursor(msgspec.Struct, frozen=True):
    """The last entry that was sent, and the number of its events that were; `parts` None means all."""

    at: Position
    parts: int | None = None

    def __str__(self) -> str:
        return str(self.at) if self.parts is None else f"{self.at}.{self.parts}"


class FeedCursor(msgspec.Struct, frozen=True):
    """Position of a reader of the whole ledger: the next event's number in the ring of one run of a gateway."""

    run: str
    number: int

    def __str__(self) -> str:
        return f"{self.run}.{self.number:x}"


def parse_session_cursor(text: str) -> SessionCursor:
    """Parse the id of a session's event. Raises InputError."""
    found = _SESSION_ID.fullmatch(text)
    if found is None:
        raise InputError(f"`{text[:80]}` is no event id of a session; leave `Last-Event-ID` out to start again")
    parts = None if found[3] is None else int(found[3])
    return SessionCursor(Position(int(found[1]), int(found[2])), parts)


def parse_feed_cursor(text: str) -> FeedCursor:
    """Parse the id of a ledger's event. Raises InputError."""
    found = _FEED_ID.fullmatch(text)
    if found is None:
        raise InputError(f"`{text[:80]}` is no event id of `/v1/events`; leave `Last-Event-ID` out to start again")
    return FeedCursor(found[1], int(found[2], 16))
