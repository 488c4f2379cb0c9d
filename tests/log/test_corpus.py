"""Stored bytes stay readable. Lines are only added to the files of `tests/data/log`, never changed.

Each file holds events of the schema that it is named after.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import inspect

from ledger.core import codec
from ledger.core.events import Actor, event_type
from ledger.core.grants import Recorded
from ledger.session import SessionState, evolve
from tests.support.events import EVENT_TYPES

CORPUS = Path(__file__).parents[1] / "data" / "log"
LINES = (CORPUS / "v1.jsonl").read_bytes().splitlines()
SECOND = (CORPUS / "v2.jsonl").read_bytes().splitlines()
FIRST_LINES = 31
"""As many stood in it when it was begun."""


def read(line: bytes) -> codec.Envelope:
    envelope = codec.decode(line)
    assert isinstance(envelope, codec.Envelope)
    return envelope


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


@pytest.mark.parametrize("line", [*LINES, *SECOND], ids=lambda line: json.loads(line)["id"])
def test_a_line_of_any_schema_is_written_the_same_today(line: bytes) -> None:
    envelope = read(line)
    again = codec.encode(envelope.event, event_id=envelope.id, prev=envelope.prev, actor=envelope.actor)
    assert again == line


def test_every_type_of_event_stands_in_the_corpus() -> None:
    assert {event_type(read(line).event) for line in (*LINES, *SECOND)} == set(EVENT_TYPES)


@pytest.mark.parametrize("tag", EVENT_TYPES)
def test_every_field_stands_in_the_corpus_with_a_value_of_its_own(tag: str) -> None:
    events = [msgspec.to_builtins(read(line).event) for line in (*LINES, *SECOND)]
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
