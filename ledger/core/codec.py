"""Encoding and decoding of events. An entry's payload is one JSON object, readable in any Redis client.

{"v": 1, "id": "evt_…", "prev": "<64 hex>", "actor": {"kind", "name", "via"?}, "event": {"type": "asked", …}}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from ledger.core.errors import DamageError, InputError
from ledger.core.events import (
    Actor,
    Asked,
    Event,
    Granted,
    PasskeyRegistered,
    PasskeyRemoved,
    PasskeyUsed,
    PolicyChanged,
    Replied,
    SessionOpened,
    Value,
)
from ledger.core.limits import EVENT_BYTES
from ledger.core.policy import demand_rules

SCHEMA_VERSION: Final = 2
"""The newest schema that this version reads; it also reads all earlier ones."""

FIRST_SCHEMA: Final = 1

DEMANDING_SCHEMA: Final = 2
"""The schema of events with a demand for a passkey's signature, or with a proof of one."""

SCHEMA_OF: Final[Mapping[type, int]] = {PasskeyRegistered: 2, PasskeyRemoved: 2, PasskeyUsed: 2}
"""The schema of each event type that schema 1 lacks.

An event is written with the schema that introduced its type, not with the newest, so that during an upgrade workers of
the previous version only refuse sessions with new types of events. A fact that readers must not skip is therefore a
new type, or covered by `_carries_demands` (`docs/guides/upgrade.md`).
"""


class Envelope(msgspec.Struct, frozen=True, gc=False):
    """The members of every entry besides the event."""

    v: int
    id: str
    prev: str
    actor: Actor
    event: Event


class NewerEvent(Value, tag="newer", kw_only=True, frozen=True):
    """An event of an unknown schema: stored and displayed, but no decision is made after it. Never written."""

    schema: int
    event_type: str
    body: Any = None


class _RawEnvelope(msgspec.Struct, frozen=True):
    v: int
    id: str
    prev: str
    actor: Actor
    event: dict[str, Any]


class Decoded(msgspec.Struct, frozen=True):
    """A decoded payload; `event` is a NewerEvent when `v` is above this version's."""

    v: int
    id: str
    prev: str
    actor: Actor
    event: Event | NewerEvent


# Invalid UTF-8 and excessive nesting raise other errors than DecodeError.
_UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Envelope)
_raw_decoder = msgspec.json.Decoder(_RawEnvelope)
_canonical = msgspec.json.Encoder(order="deterministic")


def encode(event: Event, *, event_id: str, prev: str, actor: Actor) -> bytes:
    """Return the payload of one entry. Raises InputError when it is too large, or could not be decoded again."""
    try:
        payload = _encoder.encode(Envelope(schema_of(event), event_id, prev, actor, event))
        # One value of a wrong type would make the stream permanently unreadable; the check costs a microsecond.
        _decoder.decode(payload)
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise InputError(f"the event cannot be encoded: {error}") from error
    if len(payload) > EVENT_BYTES:
        raise InputError(f"the event takes {len(payload)} bytes; at most {EVENT_BYTES} are accepted")
    return payload


def decode(payload: bytes) -> Envelope | Decoded:
    """Decode one payload. Raises DamageError for anything that no version of the ledger has written."""
    try:
        envelope = _decoder.decode(payload)
    except _UNREADABLE as error:
        return _decode_newer(payload, error)
    if schema_of(envelope.event) <= envelope.v <= SCHEMA_VERSION:
        return envelope
    return _decode_newer(payload, None)


def schema_of(event: Event) -> int:
    """Return the schema with which to write an event: the one that introduced its contents."""
    schema = SCHEMA_OF.get(type(event), FIRST_SCHEMA)
    return max(schema, DEMANDING_SCHEMA) if _carries_demands(event) else schema


def _carries_demands(event: Event) -> bool:
    """Return whether an event has a demand for a passkey or a proof, at which workers without both must stop."""
    match event:
        case Asked():
            return bool(event.proofs) or any(demand.answer_by for demand in event.demands)
        case Replied():
            return event.proof is not None or bool(event.proofs)
        case Granted():
            return event.proof is not None
        case SessionOpened() | PolicyChanged():
            return event.detail is not None and any(demand.answer_by for demand in demand_rules(event.detail.policy))
        case _:
            return False


def _decode_newer(payload: bytes, cause: Exception | None) -> Decoded:
    try:
        raw = _raw_decoder.decode(payload)
    except _UNREADABLE as error:
        raise DamageError(f"an entry is not an event of this ledger: {error}") from error
    if raw.v <= SCHEMA_VERSION:
        why = cause or "it had no such type"
        raise DamageError(f"an entry of schema {raw.v} is not a valid event: {why}") from cause
    tag = raw.event.get("type")
    return Decoded(raw.v, raw.id, raw.prev, raw.actor, NewerEvent(schema=raw.v, event_type=str(tag), body=raw.event))


def canonical_json(value: Any) -> bytes:
    """Return JSON with sorted keys and no white space, the input of digests."""
    return _canonical.encode(value)
