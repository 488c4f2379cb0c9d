"""Ids of events: positions of a reader, from which any gateway can resume. Pure.

Of a session: `<ms>-<version>`, the entry's own id; `.<part>` follows while more events of the same entry are to come.

Of the whole ledger, which has no order of its own: `<ledger>.<horizon>.<total>` and then `.<stream>-<version>` for some
streams. Everything up to the horizon (server ms) was sent, and for each of these streams also the later entries up to
that version. The total counts all entries that were sent: on resuming, it shows whether any entry is missing.
Numbers are hexadecimal.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import blake2s
from typing import Final

import msgspec

from ledger.core.errors import InputError
from ledger.stores.port import Position, StreamKey

ID_CHARS: Final = 32_768
"""Length limit of an id; ours have some dozens of characters."""

_SESSION_ID: Final = re.compile(r"(\d{1,15})-(\d{1,15})(?:\.(\d{1,9}))?", re.ASCII)
_FEED_ID: Final = re.compile(
    r"([0-9a-f]{8})\.([0-9a-f]{1,13})\.([0-9a-f]{1,13})((?:\.[0-9a-f]{16}-[0-9a-f]{1,13}(?:_[0-9a-f]{1,8})?)*)"
)


class SessionCursor(msgspec.Struct, frozen=True):
    """The last entry that was sent, and the number of its events that were; `parts` None means all."""

    at: Position
    parts: int | None = None

    def __str__(self) -> str:
        return str(self.at) if self.parts is None else f"{self.at}.{self.parts}"


class Ahead(msgspec.Struct, frozen=True):
    """Position in one stream: everything up to `version` was sent, and `parts` events of the next entry."""

    version: int
    parts: int = 0


class FeedCursor(msgspec.Struct, frozen=True):
    """Position of a reader of the whole ledger; `ahead` is by the stream's tag."""

    ledger: str
    horizon_ms: int
    total: int
    ahead: Mapping[str, Ahead] = {}

    def __str__(self) -> str:
        streams = "".join(
            f".{tag}-{one.version:x}" + (f"_{one.parts:x}" if one.parts else "") for tag, one in self.ahead.items()
        )
        return f"{self.ledger}.{self.horizon_ms:x}.{self.total:x}{streams}"


def tag_of(key: StreamKey) -> str:
    """Return a stream's name, shortened for an id."""
    return blake2s(key.name.encode(), digest_size=8).hexdigest()


def ledger_tag(secret: bytes) -> str:
    """Return a tag that distinguishes the ids of this ledger from those of another."""
    return blake2s(b"event ids", key=secret[:32], digest_size=4).hexdigest()


def parse_session_cursor(text: str) -> SessionCursor:
    """Parse the id of a session's event. Raises InputError."""
    found = _SESSION_ID.fullmatch(text) if len(text) <= ID_CHARS else None
    if found is None:
        raise InputError(f"`{text[:80]}` is no event id of a session; leave `Last-Event-ID` out to begin anew")
    parts = None if found[3] is None else int(found[3])
    return SessionCursor(Position(int(found[1]), int(found[2])), parts)


def parse_feed_cursor(text: str, ledger: str) -> FeedCursor:
    """Parse the id of a ledger's event. Raises InputError, also for an id of another ledger."""
    found = _FEED_ID.fullmatch(text) if len(text) <= ID_CHARS else None
    if found is None:
        raise InputError(f"`{text[:80]}` is no event id of `/v1/events`; leave `Last-Event-ID` out to begin anew")
    if found[1] != ledger:
        raise InputError("this event id is of another ledger; leave `Last-Event-ID` out to begin anew")
    ahead = dict(_ahead(part) for part in found[4].split(".")[1:])
    return FeedCursor(ledger, int(found[2], 16), int(found[3], 16), ahead)


def _ahead(text: str) -> tuple[str, Ahead]:
    tag, _, rest = text.partition("-")
    version, _, parts = rest.partition("_")
    return tag, Ahead(int(version, 16), int(parts or "0", 16))
