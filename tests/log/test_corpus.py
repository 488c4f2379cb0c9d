"""Stored bytes stay readable. Lines are only added to the files of `tests/data/log`, never changed.

`v1.jsonl` holds payloads of schema 1, and `v2.jsonl` those of a schema 2 that was never published, with the detail in
the payload. `v2-entries.jsonl` holds the fields of entries of schema 2, with digests and salts in hexadecimal, and
`v2-short.jsonl` those of entries in the short form of today. `v3-entries.jsonl` holds those of schema 3, of several approvers.
"""

from __future__ import annotations

import json
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import inspect

from ledger.core import codec
from ledger.core.commitments import commitment_to
from ledger.core.events import Actor, event_type
from ledger.core.grants import Recorded
from ledger.session.evolve import evolve
from ledger.session.state import SessionState
from tests.support.events import EVENT_TYPES
from tests.support.salts import SALT, salted

CORPUS = Path(__file__).parents[1] / "data" / "log"
LINES = (CORPUS / "v1.jsonl").read_bytes().splitlines()
SECOND = (CORPUS / "v2.jsonl").read_bytes().splitlines()
LONG: list[dict[str, str]] = [json.loads(line) for line in (CORPUS / "v2-entries.jsonl").read_text().splitlines()]
SHORT: list[dict[str, str]] = [json.loads(line) for line in (CORPUS / "v2-short.jsonl").read_text().splitlines()]
THIRD: list[dict[str, str]] = [json.loads(line) for line in (CORPUS / "v3-entries.jsonl").read_text().splitlines()]
ENTRIES = [*LONG, *SHORT, *THIRD]
FIRST_LINES = 31
"""As many stood in it when it was begun."""


def read(line: bytes, content: bytes | None = None) -> codec.Envelope:
    envelope = codec.decode(line, content)
    assert isinstance(envelope, codec.Envelope)
    return envelope


def fields_in(entry: dict[str, str]) -> codec.EntryFields:
    return entry["d"].encode(), entry["x"].encode() if "x" in entry else None


EVERY_EVENT = [*(read(line).event for line in (*LINES, *SECOND)), *(read(*fields_in(one)).event for one in ENTRIES)]


@pytest.mark.parametrize("line", LINES, ids=lambda line: json.loads(line)["id"])
def test_a_line_of_the_first_schema_is_read_whole(line: bytes) -> None:
    written, envelope = json.loads(line), read(line)
    assert json.loads(msgspec.json.encode(envelope.event)) == written["event"]
    assert (envelope.v, envelope.id, envelope.prev) == (1, written["id"], written["prev"])
    assert envelope.actor == Actor(**written["actor"])


@pytest.mark.parametrize("line", SECOND, ids=lambda line: json.loads(line)["id"])
def test_a_line_of_the_second_schema_is_read_whole(line: bytes) -> None:
    written, envelope = json.loads(line), read(line)
    assert json.loads(msgspec.json.encode(envelope.event)) == written["event"]
    assert envelope.v == 2


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: json.loads(entry["d"])["id"])
def test_an_entry_of_a_later_schema_is_written_the_same_today_but_for_the_form_of_its_commitment(
    entry: dict[str, str],
) -> None:
    payload, content = fields_in(entry)
    envelope = read(payload, content)
    again = codec.encode(envelope.event, event_id=envelope.id, prev=envelope.prev, actor=envelope.actor, salt="")
    if content is not None:
        payload = payload.replace(sha256(content).hexdigest().encode(), commitment_to(content).encode(), 1)
    assert again == (payload, content)


@pytest.mark.parametrize("entry", SHORT, ids=lambda entry: json.loads(entry["d"])["id"])
def test_an_entry_of_the_short_form_is_written_the_same_today(entry: dict[str, str]) -> None:
    envelope = read(*fields_in(entry))
    again = codec.encode(envelope.event, event_id=envelope.id, prev=envelope.prev, actor=envelope.actor, salt="")
    assert again == fields_in(entry)


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: json.loads(entry["d"])["id"])
def test_an_entry_without_its_content_is_still_read(entry: dict[str, str]) -> None:
    payload, content = fields_in(entry)
    assert codec.is_redacted(read(payload), None) == (content is not None)


@pytest.mark.parametrize("line", [*LINES, *SECOND], ids=lambda line: json.loads(line)["id"])
def test_an_event_of_an_older_schema_goes_into_an_entry_of_today(line: bytes) -> None:
    envelope = read(line)
    again = codec.encode(envelope.event, event_id=envelope.id, prev=envelope.prev, actor=envelope.actor, salt=SALT)
    assert read(*again).event == salted(envelope.event)


def test_every_type_of_event_stands_in_the_corpus() -> None:
    assert {event_type(event) for event in EVERY_EVENT} == set(EVENT_TYPES)


@pytest.mark.parametrize("tag", EVENT_TYPES)
def test_every_field_stands_in_the_corpus_with_a_value_of_its_own(tag: str) -> None:
    events = [msgspec.to_builtins(event) for event in EVERY_EVENT]
    seen = {path for event in events if event["type"] == tag for path in paths_of(event)}
    assert fields_of(EVENT_TYPES[tag]) - seen == set(), "append a line that has them"


def test_the_corpus_folds_to_the_state_it_always_did() -> None:
    state = SessionState(session_id="ses_1")
    for version, line in enumerate(LINES[:FIRST_LINES], 1):
        envelope = read(line)
        state = evolve(state, Recorded(envelope.event, envelope.actor, 1_000 * version, version, envelope.id))
    assert (state.version, state.newer, state.closed_ms) == (FIRST_LINES, False, 31_000)
    assert {one: settled.outcome for one, settled in state.settled.items()} == {"per_1a2b": "allowed"}
    assert sorted(state.grants) == ["grn_1"]
    assert state.grants["grn_1"].revoked_ms is not None
    assert (list(state.clients), state.lock) == ([], "desk")


def paths_of(value: Any, before: str = "") -> set[str]:
    """`detail.evaluation.verdict` for every member there is; the same for each item of a list."""
    if isinstance(value, list | tuple):
        return {path for item in value for path in paths_of(item, before)}
    if not isinstance(value, dict):
        return set()
    here = {f"{before}{name}" for name in value}
    return here | {path for name, inner in value.items() for path in paths_of(inner, f"{before}{name}.")}


@cache
def fields_of(cls: type[msgspec.Struct], before: str = "") -> frozenset[str]:
    info = inspect.type_info(cls)
    assert isinstance(info, inspect.StructType)
    found: set[str] = set()
    for field in info.fields:
        found.add(f"{before}{field.encode_name}")
        for inner in structs_in(field.type):
            found |= fields_of(inner, f"{before}{field.encode_name}.")
    return frozenset(found)


def structs_in(kind: inspect.Type) -> list[type[msgspec.Struct]]:
    match kind:
        case inspect.StructType():
            return [kind.cls]
        case inspect.UnionType():
            return [cls for one in kind.types for cls in structs_in(one)]
        case inspect.VarTupleType():
            return structs_in(kind.item_type)
        case _:
            return []
