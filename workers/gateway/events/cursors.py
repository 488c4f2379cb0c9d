"""Ids of events: where a reader is, so that any gateway can go on from there. Pure.

Of a session: `<ms>-<version>`, the entry's own id; `.<part>` follows while more events of the same entry are to come.

Of the whole ledger, which has no order of its own: `<ledger>.<horizon>.<total>` and then `.<stream>-<version>` for some
streams. Everything up to the horizon (server ms) was told, and of the streams named, what is later, up to that version.
The total is how many entries that are in all: who goes on from here can tell whether it found every one of the others.
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
"""The longest id that is looked at; ours are some dozens of characters."""

_SESSION_ID: Final = re.compile(r"(\d{1,15})-(\d{1,15})(?:\.(\d{1,9}))?", re.ASCII)
_FEED_ID: Final = re.compile(
    r"([0-9a-f]{8})\.([0-9a-f]{1,13})\.([0-9a-f]{1,13})((?:\.[0-9a-f]{16}-[0-9a-f]{1,13}(?:_[0-9a-f]{1,8})?)*)"
)


class SessionCursor(msgspec.Struct, frozen=True):
    """The last entry that was told, and how many of its events; `parts` None is all of them."""

    at: Position
    parts: int | None = None

    def __str__(self) -> str:
        return str(self.at) if self.parts is None else f"{self.at}.{self.parts}"


class Ahead(msgspec.Struct, frozen=True):
    """Of one stream: all up to `version` was told, and so many events of the entry after it."""

    version: int
    parts: int = 0


class FeedCursor(msgspec.Struct, frozen=True):
    """Where a reader of the whole ledger is; `ahead` is by the stream's tag."""

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
    """A stream's name, short enough for an id."""
    return blake2s(key.name.encode(), digest_size=8).hexdigest()


def ledger_tag(secret: bytes) -> str:
    """Tells this ledger's ids from those of another."""
    return blake2s(b"event ids", key=secret[:32], digest_size=4).hexdigest()


def parse_session_cursor(text: str) -> SessionCursor:
    """Raises InputError."""
    found = _SESSION_ID.fullmatch(text) if len(text) <= ID_CHARS else None
    if found is None:
        raise InputError(f"`{text[:80]}` is no event id of a session; leave `Last-Event-ID` out to begin anew")
    parts = None if found[3] is None else int(found[3])
    return SessionCursor(Position(int(found[1]), int(found[2])), parts)


def parse_feed_cursor(text: str, ledger: str) -> FeedCursor:
    """Raises InputError, also for an id of another ledger."""
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
