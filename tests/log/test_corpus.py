"""Stored bytes stay readable. Lines are only added to the files of `tests/data/log`, never changed.

`v1.jsonl` holds the fields of entries of schema 1: each type of event, and each of its members.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
from msgspec import inspect

from ledger.core import codec
from ledger.core.events import event_type
from ledger.core.grants import Recorded
from ledger.session.evolve import evolve
from ledger.session.state import SessionState
from tests.support.events import EVENT_TYPES
from tests.support.rows import every

CORPUS = Path(__file__).parents[1] / "data" / "log"
ENTRIES: list[dict[str, str]] = [json.loads(line) for line in (CORPUS / "v1.jsonl").read_text().splitlines()]
FIRST_LINES = 31
"""Lines of one session, from its opening to its end."""


def read(payload: bytes, content: bytes | None = None) -> codec.Envelope:
    envelope = codec.decode(payload, content)
    assert isinstance(envelope, codec.Envelope)
    return envelope


def fields_in(entry: dict[str, str]) -> codec.EntryFields:
    return entry["d"].encode(), entry["x"].encode() if "x" in entry else None


EVERY_EVENT = [read(*fields_in(one)).event for one in ENTRIES]


@every("entry", ENTRIES, ids=lambda entry: json.loads(entry["d"])["id"])
def test_an_entry_is_read_whole_and_written_the_same_today(entry: dict[str, str]) -> None:
    payload, content = fields_in(entry)
    written, envelope = json.loads(payload), read(payload, content)
    told = json.loads(msgspec.json.encode(envelope.event))
    detail = told.pop("detail", None)
    assert (told, detail) == (written["event"], None if content is None else json.loads(content))
    assert (envelope.v, envelope.id, envelope.prev) == (1, written["id"], written["prev"])
    again = codec.encode(envelope.event, event_id=envelope.id, prev=envelope.prev, actor=envelope.actor, salt="")
    assert again == (payload, content)


@every("entry", ENTRIES, ids=lambda entry: json.loads(entry["d"])["id"])
def test_an_entry_without_its_content_is_still_read(entry: dict[str, str]) -> None:
    payload, content = fields_in(entry)
    assert codec.is_redacted(read(payload), None) == (content is not None)


def test_every_type_of_event_stands_in_the_corpus() -> None:
    assert {event_type(event) for event in EVERY_EVENT} == set(EVENT_TYPES)


@every("tag", EVENT_TYPES)
def test_every_field_stands_in_the_corpus_with_a_value_of_its_own(tag: str) -> None:
    events = [msgspec.to_builtins(event) for event in EVERY_EVENT]
    seen = {path for event in events if event["type"] == tag for path in paths_of(event)}
    assert fields_of(EVENT_TYPES[tag]) - seen == set(), "append a line that has them"


def test_the_corpus_folds_to_the_state_it_always_did() -> None:
    state = SessionState(session_id="ses_1")
    for version, entry in enumerate(ENTRIES[:FIRST_LINES], 1):
        envelope = read(*fields_in(entry))
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
