"""Encoding and decoding of events. An entry has a payload, the field `d`, and mostly content, the field `x`.

    d  {"v": 1, "id": "evt_…", "prev": "<64 hex>", "actor": {…}, "x": "<43>", "event": {"type": "asked", …}}
    x  {"salt": "<22>", "patterns": […], …}

`x` is the event's `detail` behind a random salt, and `d` commits to it by SHA-256. So the content can be taken out, and
what remains is as provable as before. Both are JSON, readable in any Redis client.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import NoneType
from typing import Any, Final, TypeAlias, get_args, get_type_hints

import msgspec

from ledger.core.commitments import SALT_BYTES, commitment_bytes, commits_to, is_salt
from ledger.core.errors import DamageError, EventSizeError, InputError
from ledger.core.events import Actor, Asked, Detail, Event, Value
from ledger.core.limits import EVENT_BYTES

FIRST_SCHEMA: Final = 1

SCHEMA_VERSION: Final = FIRST_SCHEMA
"""The newest schema that this version reads; it also reads all earlier ones."""

SCHEMA_OF: Final[Mapping[type, int]] = {}
"""The schema of each event type that the first schema lacks.

An event is written with the schema that introduced its type, not with the newest, so that during an upgrade workers of
the previous version only refuse sessions with new types of events. A fact that readers must not skip is therefore a
new type (`docs/reference/log-format.md`).
"""

EntryFields: TypeAlias = tuple[bytes, bytes | None]
"""The fields `d` and `x` of an entry; `x` is None for an event without a detail."""


class Envelope(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The members of every payload. `x` is the commitment to the content, None without one."""

    v: int
    id: str
    prev: str
    actor: Actor
    event: Event
    x: str | None = None


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
    x: Any = None


class Decoded(msgspec.Struct, frozen=True):
    """A decoded payload; `event` is a NewerEvent when `v` is above this version's."""

    v: int
    id: str
    prev: str
    actor: Actor
    event: Event | NewerEvent
    x: Any = None


# Invalid UTF-8 and excessive nesting raise other errors than DecodeError.
_UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Envelope)
_raw_decoder = msgspec.json.Decoder(_RawEnvelope)
_canonical = msgspec.json.Encoder(order="deterministic")
_detail_decoders: Final[dict[type, msgspec.json.Decoder[Detail] | None]] = {}

_EVENT: Final = b',"event":'
_DETAIL: Final = b',"detail":'
_SALT: Final = b'"salt":"'

# `encode` cuts the detail off the end of the JSON of an event.
assert not any("detail" in cls.__struct_fields__[:-1] for cls in get_args(Event)), "`detail` is the last member"


def encode(event: Event, *, event_id: str, prev: str, actor: Actor, salt: str) -> EntryFields:
    """Return the fields `d` and `x` of one entry. An event whose detail has a salt keeps it; `salt` is for the others.

    Raises InputError when it is too large, or could not be decoded again.
    """
    try:
        schema = SCHEMA_OF.get(type(event), FIRST_SCHEMA)
        whole = _encoder.encode(Envelope(schema, event_id, prev, actor, event))
        if type(event) is not Asked:
            # One value of a wrong type would make the stream permanently unreadable. Those of an ask were all checked when
            # its question was made, and asks are most of what is written.
            _decoder.decode(whole)
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise InputError(f"the event cannot be encoded: {error}") from error
    # Texts are escaped, so that the first such name is that of the event's own member.
    end = whole.find(_DETAIL)
    payload, size_bytes = whole, len(whole)
    content: bytes | None = None
    if end >= 0:
        content = _content(whole[end + len(_DETAIL) : -2], event, salt)
        begin = whole.index(_EVENT)
        payload = b'%b,"x":"%b"%b}}' % (whole[:begin], commitment_bytes(content), whole[begin:end])
        size_bytes = len(payload) + len(content)
    if size_bytes > EVENT_BYTES:
        require_payload_size(size_bytes)
    return payload, content


def require_payload_size(size_bytes: int) -> None:
    """Raise EventSizeError for more than one event may take."""
    if size_bytes > EVENT_BYTES:
        raise EventSizeError(f"the event takes {size_bytes} bytes; at most {EVENT_BYTES} are accepted")


def _content(detail: bytes, event: Any, salt: str) -> bytes:
    """Return the JSON of a detail with its salt as the first member. Raises InputError for a salt that is none."""
    own = event.detail.salt
    if not is_salt(own or salt):
        raise InputError(f"the salt of an event must be {SALT_BYTES} bytes in base64url, without padding")
    if own and detail.startswith(_SALT, 1):
        return detail
    if own:
        # The last member, behind those that can be given by position.
        detail = detail[: detail.rindex(_SALT)].removesuffix(b",") + b"}"
    rest = detail[1:] if detail == b"{}" else b"," + detail[1:]
    return b'{"salt":"%b"%b' % ((own or salt).encode(), rest)


def decode(payload: bytes, content: bytes | None = None) -> Envelope | Decoded:
    """Decode the fields `d` and `x` of one entry. Raises DamageError for anything that no version has written.

    Without the content to which the payload commits, the event has no detail: it was redacted (`is_redacted`).
    """
    try:
        envelope = _decoder.decode(payload)
    except _UNREADABLE as error:
        return _decode_newer(payload, error)
    if not schema_of(envelope.event) <= envelope.v <= SCHEMA_VERSION:
        return _decode_newer(payload, None)
    if content is not None or envelope.x is not None:
        attach(envelope, content)
    elif getattr(envelope.event, "detail", None) is not None:
        raise DamageError("an entry has its content in the payload, which no version has written")
    return envelope


def is_redacted(envelope: Envelope | Decoded, content: bytes | None) -> bool:
    """Return whether an entry lacks the content to which its payload commits."""
    return content is None and envelope.x is not None


def attach(envelope: Envelope, content: bytes | None) -> None:
    """Give a decoded event its detail. Raises DamageError for content that the payload does not commit to."""
    event: Any = envelope.event
    reader = _detail_decoder(type(event))
    if reader is None or event.detail is not None or envelope.x is None:
        raise DamageError("an entry has content in a field `x` to which its payload does not commit")
    if content is None:
        return
    if not commits_to(envelope.x, content):
        raise DamageError("the content of an entry was changed: it is not what its payload commits to", altered=True)
    try:
        detail = reader.decode(content)
    except _UNREADABLE as error:
        raise DamageError(f"the content of an entry is not that of its event: {error}") from error
    if not is_salt(detail.salt):
        raise DamageError("the content of an entry has no salt")
    # The event was made by `decode` and is still nobody else's.
    msgspec.structs.force_setattr(event, "detail", detail)


def _detail_decoder(cls: type) -> msgspec.json.Decoder[Detail] | None:
    """Return the decoder of an event type's detail, None for a type without one."""
    if cls not in _detail_decoders:
        # Made when it is needed first: it takes longer than a command may take to start.
        kind = get_type_hints(cls).get("detail")
        (known,) = [one for one in get_args(kind) if one is not NoneType] or [None]
        _detail_decoders[cls] = None if known is None else msgspec.json.Decoder(known)
    return _detail_decoders[cls]


def schema_of(event: Event) -> int:
    """Return the schema with which to write an event: the one that introduced its type."""
    return SCHEMA_OF.get(type(event), FIRST_SCHEMA)


def _decode_newer(payload: bytes, cause: Exception | None) -> Decoded:
    try:
        raw = _raw_decoder.decode(payload)
    except _UNREADABLE as error:
        raise DamageError(f"an entry is not an event of this ledger: {error}") from error
    if raw.v <= SCHEMA_VERSION:
        why = cause or "it had no such type"
        raise DamageError(f"an entry of schema {raw.v} is not a valid event: {why}") from cause
    newer = NewerEvent(schema=raw.v, event_type=str(raw.event.get("type")), body=raw.event)
    return Decoded(raw.v, raw.id, raw.prev, raw.actor, newer, raw.x)


def canonical_json(value: Any) -> bytes:
    """Return JSON with sorted keys and no white space, the input of digests."""
    return _canonical.encode(value)
