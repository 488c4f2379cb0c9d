from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given as for_all
from hypothesis import settings
from hypothesis import strategies as st

from ledger.core import codec
from ledger.core.errors import DamageError, InputError
from ledger.core.events import Actor, Event, LogRegressed, ReasonDetail, SessionClosed, event_type
from ledger.core.grants import Recorded
from ledger.core.limits import EVENT_BYTES
from ledger.session import SessionState, evolve
from tests.support.events import EVENT_TYPES, any_actor, any_event, events_of

ACTOR = Actor("agent", "claude")
PREV = "0" * 64
FRAME = '{"v":%s,"id":"evt_1","prev":"%s","actor":{"kind":"agent","name":"claude"},"event":%s}'


def framed(event: str, schema: object = 1) -> bytes:
    return (FRAME % (schema, PREV, event)).encode()


def encoded(event: Event, actor: Actor = ACTOR) -> bytes:
    return codec.encode(event, event_id="evt_1", prev=PREV, actor=actor)


@pytest.mark.parametrize("cls", EVENT_TYPES.values(), ids=list(EVENT_TYPES))
@settings(max_examples=25)
@for_all(data=st.data())
def test_every_type_of_event_comes_back_as_it_was_written(cls: type[msgspec.Struct], data: st.DataObject) -> None:
    event, actor = data.draw(events_of(cls)), data.draw(any_actor)
    payload = encoded(event, actor)
    assert codec.decode(payload) == codec.Envelope(codec.schema_of(event), "evt_1", PREV, actor, event)
    assert encoded(event, actor) == payload, "the same event is the same bytes"


@settings(max_examples=100)
@for_all(st.lists(any_event, max_size=6))
def test_any_events_fold_and_to_the_same_state_before_and_after_the_log(events: list[Event]) -> None:
    written, read = SessionState(session_id="ses_1"), SessionState(session_id="ses_1")
    for version, event in enumerate(events, 1):
        envelope = codec.decode(encoded(event))
        written = evolve(written, Recorded(event, ACTOR, 1000, version, "evt_1"))
        read = evolve(read, Recorded(envelope.event, envelope.actor, 1000, version, envelope.id))
    assert read == written
    assert read.version == len(events)


def test_a_payload_is_one_readable_json_object() -> None:
    payload = encoded(SessionClosed(detail=ReasonDetail("fertig, tschüß")))
    assert json.loads(payload) == {
        "v": 1,
        "id": "evt_1",
        "prev": PREV,
        "actor": {"kind": "agent", "name": "claude"},
        "event": {"type": "session_closed", "detail": {"reason": "fertig, tschüß"}},
    }
    assert "tschüß".encode() in payload


def test_a_default_takes_no_room() -> None:
    assert encoded(SessionClosed()) == framed('{"type":"session_closed"}')


def test_the_type_of_an_event_is_its_tag() -> None:
    assert event_type(LogRegressed(seen_id="5-2", found_id="5-1")) == "log_regressed"


def test_an_event_that_is_too_large_is_refused() -> None:
    with pytest.raises(InputError, match=f"at most {EVENT_BYTES} are accepted"):
        encoded(SessionClosed(detail=ReasonDetail("x" * EVENT_BYTES)))


def test_fields_that_a_later_version_added_are_passed_over() -> None:
    payload = framed('{"type":"session_closed","mood":"good","detail":{"reason":"done","weather":[1,{}]}}')
    assert codec.decode(payload).event == SessionClosed(detail=ReasonDetail("done"))


@pytest.mark.parametrize(
    "event",
    ['{"type":"vetoed","why":{"deep":[1]}}', '{"type":"session_closed"}', '{"type":"asked","request_id":7}'],
    ids=["unknown type", "known type", "known type, other fields"],
)
def test_an_event_of_a_newer_schema_is_kept_as_it_is(event: str) -> None:
    body = json.loads(event)
    read = codec.decode(framed(event, 3))
    newer = codec.NewerEvent(schema=3, event_type=body["type"], body=body)
    assert read == codec.Decoded(3, "evt_1", PREV, ACTOR, newer)


def test_a_version_that_knows_more_types_writes_only_those_as_its_newer_schema(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(codec, "SCHEMA_VERSION", 3)
    monkeypatch.setattr(codec, "SCHEMA_OF", {SessionClosed: 3})
    regressed = LogRegressed(seen_id="5-2", found_id="5-1")
    assert [json.loads(encoded(event))["v"] for event in (regressed, SessionClosed())] == [1, 3]
    for event in (regressed, SessionClosed()):
        assert codec.decode(encoded(event)).event == event
    # The newer version may write a type of the first schema as its own; the first one never had what came later.
    assert codec.decode(encoded(regressed).replace(b'"v":1', b'"v":3')).event == regressed
    with pytest.raises(DamageError, match="of schema 1 is not a valid event"):
        codec.decode(framed('{"type":"session_closed"}', 1))
    assert isinstance(codec.decode(framed('{"type":"session_closed"}', 4)), codec.Decoded)


DEEP = "[" * 100_000 + "]" * 100_000
DAMAGED: dict[str, bytes] = {
    "nothing": b"",
    "no JSON": b"\x00\xff",
    "no object": b"[1,2]",
    "an object of something else": b'{"hello":"world"}',
    "a cut payload": framed('{"type":"session_closed"}')[:-5],
    "something behind": framed('{"type":"session_closed"}') + b"x",
    "an unknown type of this schema": framed('{"type":"vetoed"}'),
    "no type": framed("{}"),
    "a field of another type": framed('{"type":"revoked","grant_id":7}'),
    "a missing field": framed('{"type":"revoked"}'),
    "a value that is none of its kind": framed('{"type":"cancelled","request_id":"r","cause":"mood"}'),
    "a number that is none": framed('{"type":"expired","request_id":"r","tier":"attended","duration_ms":1e400}'),
    "a number without end": framed('{"type":"tool_finished","detail":{"input":%s}}' % ("9" * 5000)),
    "text that is not UTF-8": framed('{"type":"session_closed","detail":{"reason":"?"}}').replace(b"?", b"\xff\xfe"),
    "half a character": framed('{"type":"session_closed","detail":{"reason":"\\ud800"}}'),
    "nesting without end": framed('{"type":"tool_finished","detail":{"input":' + DEEP + "}}"),
    "nesting without end in a newer schema": framed('{"type":"vetoed","why":' + DEEP + "}", 2),
    "a schema before the first": framed('{"type":"session_closed"}', 0),
    "a schema below nothing": framed('{"type":"session_closed"}', -1),
    "a schema that is no number": framed('{"type":"session_closed"}', '"1"'),
}


@pytest.mark.parametrize("payload", DAMAGED.values(), ids=list(DAMAGED))
def test_what_no_version_has_written_is_damage_and_never_another_error(payload: bytes) -> None:
    with pytest.raises(DamageError) as caught:
        codec.decode(payload)
    assert caught.value.code == "DAMAGED"


@settings(max_examples=200)
@for_all(payload=st.binary() | st.text().map(str.encode), at=st.integers(0, 150))
def test_no_bytes_at_all_are_read_as_anything_but_an_event_or_damage(payload: bytes, at: int) -> None:
    whole = framed('{"type":"cancelled","request_id":"per_1","cause":"withdrawn"}')
    for damaged in (payload, whole[:at] + payload + whole[at:]):
        read: Any = None
        try:
            read = codec.decode(damaged)
        except DamageError:
            continue
        assert isinstance(read, codec.Envelope | codec.Decoded)


def test_canonical_json_has_sorted_keys_and_no_white_space() -> None:
    assert (
        codec.canonical_json({"b": [1, {"d": 1, "c": None}], "a": "é"}) == '{"a":"é","b":[1,{"c":null,"d":1}]}'.encode()
    )
