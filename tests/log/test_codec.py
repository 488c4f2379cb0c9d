from __future__ import annotations

import json
from typing import Any, Final

import msgspec
import pytest
from hypothesis import given as for_all
from hypothesis import settings
from hypothesis import strategies as st

from ledger.core import codec
from ledger.core.commitments import commitment_bytes
from ledger.core.errors import DamageError, InputError
from ledger.core.events import (
    Actor,
    Event,
    LogRegressed,
    ReasonDetail,
    SessionClosed,
    ToolFinished,
    ToolFinishedDetail,
    event_type,
)
from ledger.core.grants import Recorded
from ledger.core.limits import EVENT_BYTES
from ledger.session.evolve import evolve
from ledger.session.state import SessionState
from tests.support.events import EVENT_TYPES, any_actor, any_event, events_of
from tests.support.rows import every
from tests.support.salts import SALT, salted, unsalted

ACTOR = Actor("agent", "claude")
PREV = "0" * 64
FRAME = '{"v":%s,"id":"evt_1","prev":"%s","actor":{"kind":"agent","name":"claude"},"event":%s}'


def framed(event: str, schema: object = 1) -> bytes:
    return (FRAME % (schema, PREV, event)).encode()


def encoded(event: Event, actor: Actor = ACTOR) -> codec.EntryFields:
    return codec.encode(event, event_id="evt_1", prev=PREV, actor=actor, salt=SALT)


@pytest.mark.parametrize("cls", EVENT_TYPES.values(), ids=list(EVENT_TYPES))
@settings(max_examples=25)
@for_all(data=st.data())
def test_every_type_of_event_comes_back_as_it_was_written(cls: type[msgspec.Struct], data: st.DataObject) -> None:
    event, actor = data.draw(events_of(cls)), data.draw(any_actor)
    payload, content = encoded(event, actor)
    read = codec.decode(payload, content)
    assert (read.v, read.id, read.prev, read.actor) == (codec.schema_of(event), "evt_1", PREV, actor)
    assert unsalted(read.event) == unsalted(event)
    assert encoded(event, actor) == (payload, content), "the same event is the same bytes"


@pytest.mark.slow
@settings(max_examples=100)
@for_all(st.lists(any_event, max_size=6))
def test_any_events_fold_and_to_the_same_state_before_and_after_the_log(events: list[Event]) -> None:
    written, read = SessionState(session_id="ses_1"), SessionState(session_id="ses_1")
    for version, event in enumerate(events, 1):
        envelope = codec.decode(*encoded(event))
        written = evolve(written, Recorded(salted(event), ACTOR, 1000, version, "evt_1"))
        read = evolve(read, Recorded(envelope.event, envelope.actor, 1000, version, envelope.id))
    assert read == written
    assert read.version == len(events)


def test_payload_and_content_are_readable_json_objects() -> None:
    payload, content = encoded(SessionClosed(detail=ReasonDetail("fertig, tschüß")))
    assert content == f'{{"salt":"{SALT}","reason":"fertig, tschüß"}}'.encode()
    assert payload.decode() == (
        f'{{"v":1,"id":"evt_1","prev":"{PREV}","actor":{{"kind":"agent","name":"claude"}},'
        f'"x":"{commitment_bytes(content).decode()}","event":{{"type":"session_closed"}}}}'
    )


def test_a_default_takes_no_room() -> None:
    assert encoded(SessionClosed()) == (framed('{"type":"session_closed"}'), None)
    content = encoded(SessionClosed(detail=ReasonDetail()))[1]
    assert content == f'{{"salt":"{SALT}"}}'.encode()


def test_the_type_of_an_event_is_its_tag() -> None:
    assert event_type(LogRegressed(seen_id="5-2", found_id="5-1")) == "log_regressed"


OWN: Final = "0123456789abcdef01234A"


@pytest.mark.parametrize(
    ("event", "content"),
    [
        (SessionClosed(detail=ReasonDetail(salt=OWN)), "{}"),
        (SessionClosed(detail=ReasonDetail('a "salt":"', salt=OWN)), '{"reason":"a \\"salt\\":\\""}'),
        (ToolFinished(detail=ToolFinishedDetail({"salt": "x"}, salt=OWN)), '{"input":{"salt":"x"}}'),
    ],
    ids=["alone", "in a text", "in an input"],
)
def test_an_event_keeps_the_salt_that_it_has_and_it_comes_first(event: Event, content: str) -> None:
    written = encoded(event)[1]
    assert written is not None
    assert written.startswith(f'{{"salt":"{OWN}"'.encode())
    members = json.loads(written)
    assert members.pop("salt") == OWN
    assert members == json.loads(content)
    assert codec.decode(*encoded(event)).event == event


@pytest.mark.parametrize("salt", ["", "5a17" * 8, "5a17" * 5, "5a17" * 5 + "5A=", "5a17" * 5 + "5B"])
def test_a_salt_that_is_none_is_never_written(salt: str) -> None:
    with pytest.raises(InputError, match="the salt of an event must be 16 bytes"):
        codec.encode(CLOSED, event_id="evt_1", prev=PREV, actor=ACTOR, salt=salt)


CLOSED: Final = SessionClosed(detail=ReasonDetail("done"))
FIELDS: Final = encoded(CLOSED)


def test_content_that_is_gone_leaves_the_event_without_its_detail() -> None:
    payload, content = FIELDS
    read = codec.decode(payload)
    assert read.event == SessionClosed()
    assert codec.is_redacted(read, None)
    assert not codec.is_redacted(codec.decode(payload, content), content)
    assert not codec.is_redacted(codec.decode(*encoded(SessionClosed())), None)


@pytest.mark.parametrize(
    ("payload", "content"),
    [
        (FIELDS[0], (FIELDS[1] or b"").replace(b"done", b"gone")),
        (FIELDS[0], b""),
        (encoded(SessionClosed())[0], FIELDS[1]),
        (framed('{"type":"session_closed","detail":{"reason":"done"}}'), FIELDS[1]),
        (framed('{"type":"session_closed","detail":{"reason":"done"}}'), None),
        (FIELDS[0].replace(b'"session_closed"', b'"session_closed","detail":{"reason":"done"}'), FIELDS[1]),
        (FIELDS[0].replace(b'"type":"session_closed"', b'"type":"lock_taken","client_id":"c"'), FIELDS[1]),
    ],
    ids=[
        "changed",
        "emptied",
        "not committed to",
        "in the payload too",
        "in the payload alone",
        "twice",
        "of a type without",
    ],
)
def test_content_to_which_the_payload_does_not_commit_is_damage(payload: bytes, content: bytes | None) -> None:
    with pytest.raises(DamageError):
        codec.decode(payload, content)


NO_DETAILS: Final = (
    b"null",
    b"[]",
    b"{}",
    b'{"salt":"5a17"}',
    b'{"salt":7}',
    b'{"salt":"%b","reason":7}' % SALT.encode(),
)


@pytest.mark.parametrize("content", NO_DETAILS)
def test_content_that_is_no_detail_of_its_event_is_damage(content: bytes) -> None:
    payload, written = FIELDS
    own = commitment_bytes(written or b"")
    with pytest.raises(DamageError):
        codec.decode(payload.replace(own, commitment_bytes(content)), content)


def test_a_guess_cannot_be_confirmed_without_the_content() -> None:
    """The same event twice, under two salts, has no digest in common."""
    once = encoded(CLOSED)[0]
    again = codec.encode(CLOSED, event_id="evt_1", prev=PREV, actor=ACTOR, salt=OWN)[0]
    assert json.loads(once)["x"] != json.loads(again)["x"]


def test_an_event_that_is_too_large_is_refused() -> None:
    with pytest.raises(InputError, match=f"at most {EVENT_BYTES} are accepted"):
        encoded(SessionClosed(detail=ReasonDetail("x" * EVENT_BYTES)))


def test_fields_that_a_later_version_added_are_passed_over() -> None:
    content = b'{"salt":"%b","reason":"done","weather":[1,{}]}' % SALT.encode()
    payload = framed('{"type":"session_closed","mood":"good"}')
    payload = payload.replace(b',"event"', b',"x":"%b","event"' % commitment_bytes(content))
    assert codec.decode(payload, content).event == SessionClosed(detail=ReasonDetail("done", salt=SALT))


@pytest.mark.parametrize(
    "event",
    ['{"type":"vetoed","why":{"deep":[1]}}', '{"type":"session_closed"}', '{"type":"asked","request_id":7}'],
    ids=["unknown type", "known type", "known type, other fields"],
)
def test_an_event_of_a_newer_schema_is_kept_as_it_is(event: str) -> None:
    body = json.loads(event)
    read = codec.decode(framed(event, 4))
    newer = codec.NewerEvent(schema=4, event_type=body["type"], body=body)
    assert read == codec.Decoded(4, "evt_1", PREV, ACTOR, newer)


def test_a_version_that_knows_more_types_writes_only_those_as_its_newer_schema(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(codec, "SCHEMA_VERSION", 2)
    monkeypatch.setattr(codec, "SCHEMA_OF", {SessionClosed: 2})
    regressed = LogRegressed(seen_id="5-2", found_id="5-1")
    assert [json.loads(encoded(event)[0])["v"] for event in (regressed, SessionClosed())] == [1, 2]
    for event in (regressed, SessionClosed()):
        assert codec.decode(*encoded(event)).event == event
    # The newer version may write a type of the first schema as its own; the first one never had what came later.
    assert codec.decode(encoded(regressed)[0].replace(b'"v":1', b'"v":2')).event == regressed
    with pytest.raises(DamageError, match="of schema 1 is not a valid event"):
        codec.decode(framed('{"type":"session_closed"}', 1))
    assert isinstance(codec.decode(framed('{"type":"session_closed"}', 3)), codec.Decoded)


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


@every("what", DAMAGED)
def test_what_no_version_has_written_is_damage_and_never_another_error(what: str) -> None:
    with pytest.raises(DamageError) as caught:
        codec.decode(DAMAGED[what])
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
