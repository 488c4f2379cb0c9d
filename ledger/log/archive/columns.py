"""The columns of archived entries: ids and bytes as they were stored, and what analysts select by. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from ledger.core import codec
from ledger.core.codec import NewerEvent
from ledger.core.errors import DamageError
from ledger.core.events import Asked, Cancelled, Event, Expired, Reopened, Replied, event_type
from ledger.core.policy import Verdict
from ledger.stores.port import Entry, StreamKey

PEOPLE: Final = ("person", "local")
"""The kinds of actors that are people."""


class ArchiveRow(msgspec.Struct, frozen=True, gc=False):
    """One entry in a file. `d` and `x` are its fields, as text of exactly the same bytes in UTF-8."""

    stream: str
    version: int
    ms: int
    type: str
    request: str | None
    person: str | None
    permission: str | None
    outcome: str | None
    d: str
    x: str | None


COLUMN_TYPES: Final = {
    "stream": "VARCHAR",
    "version": "BIGINT",
    "ms": "BIGINT",
    "type": "VARCHAR",
    "request": "VARCHAR",
    "person": "VARCHAR",
    "permission": "VARCHAR",
    "outcome": "VARCHAR",
    "d": "VARCHAR",
    "x": "VARCHAR",
}
"""The columns of a file in their order, with their types in DuckDB."""


def rows_of(key: StreamKey, entries: Sequence[Entry]) -> Iterator[ArchiveRow]:
    """Iterate over the rows of a stream. Raises DamageError for an entry that no version has written."""
    permissions: dict[str, str] = {}  # by request
    name = key.name
    for ms, version, payload, content in entries:
        envelope = codec.decode(payload)
        event, actor = envelope.event, envelope.actor
        request: str | None = getattr(event, "request_id", None)
        permission: str | None = getattr(event, "permission", None)
        if request is not None:
            if isinstance(event, Asked):
                permissions[request] = event.permission
            permission = permission or permissions.get(request)
        yield ArchiveRow(
            stream=name,
            version=version,
            ms=ms,
            type=event.event_type if isinstance(event, NewerEvent) else event_type(event),
            request=request,
            person=actor.name if actor.kind in PEOPLE else None,
            permission=permission,
            outcome=outcome_of(event),
            d=_text(name, version, payload),
            x=None if content is None else _text(name, version, content),
        )


def outcome_of(event: Event | NewerEvent) -> str | None:
    """Return the outcome that an event gives its request; None for an event that ends none."""
    match event:
        case Asked() | Reopened():
            return {Verdict.ALLOW: "allowed", Verdict.DENY: "denied"}.get(event.verdict)
        case Replied():
            return event.outcome
        case Expired():
            return "expired"
        case Cancelled():
            return "cancelled"
        case _:
            return None


def _text(name: str, version: int, field: bytes) -> str:
    try:
        return field.decode()
    except UnicodeDecodeError as error:
        raise DamageError(f"stream `{name}` version {version} is not UTF-8", stream=name, version=version) from error


def entry_of(ms: int, version: int, d: str, x: str | None) -> Entry:
    """Return the entry of a row."""
    return Entry(ms, version, d.encode(), None if x is None else x.encode())
