"""Messages of the real OpenCode 1.18.33, recorded with a scripted model, and read by the bridge as intended."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.processes import ROOT
from workers.bridges.opencode.request_tracker import (
    Action,
    CloseSession,
    JudgeRequest,
    LookAtSession,
    Note,
    RecordReply,
    RequestTracker,
    Withdraw,
)
from workers.bridges.opencode.shapes import RequestAsked, is_question_id, read_event, read_question, read_request

FOLDER: Final = ROOT / "tests/data/agents/opencode"
DIRECTORY: Final = "/home/me/shop"

Brief = tuple[str, ...]

GHOSTS: Final[list[Brief]] = [("withdraw", "per_1", "asker_gave_up"), ("withdraw", "per_2", "asker_gave_up")]

EXPECTED: Final[dict[str, list[Brief]]] = {
    "abort": [("judge", "per_1"), ("judge", "per_2"), ("look", "ses_1"), *GHOSTS],
    "delete": [("judge", "per_1"), ("judge", "per_2"), *GHOSTS, ("close", "ses_1")],
    "dispose": [("judge", "per_1"), ("judge", "per_2"), ("look", "ses_1"), *GHOSTS],
    "question": [
        ("judge", "que_1"),
        ("record", "que_1", "once"),
        ("ran", "que_1"),
        ("judge", "que_2"),
        ("record", "que_2", "reject"),
        ("judge", "que_3"),
        ("look", "ses_1"),
        ("withdraw", "que_3", "asker_gave_up"),
    ],
    "reject": [
        ("judge", "per_1"),
        ("judge", "per_2"),
        ("record", "per_1", "reject"),
        ("record", "per_2", "reject"),
    ],
    "sub": [("judge", "per_1"), ("look", "ses_2"), ("withdraw", "per_1", "asker_gave_up")],
}


def test_every_recording_is_replayed() -> None:
    assert sorted(EXPECTED) == sorted(path.stem for path in FOLDER.glob("*.jsonl"))


@pytest.mark.parametrize("name", EXPECTED)
def test_a_recorded_conversation_is_read_as_it_went(name: str) -> None:
    assert [brief(one) for one in replayed(FOLDER / f"{name}.jsonl")] == EXPECTED[name]


def replayed(path: Path) -> list[Action]:
    """Return the actions for a transcript in which nobody has answered yet."""
    tracker, actions = RequestTracker(), list[Action]()
    at_work: set[str] = set()
    permissions: list[RequestAsked] = []
    for line in path.read_text().splitlines():
        row: dict[str, Any] = json.loads(line)
        if "event" in row:
            event = read_event(row["event"], DIRECTORY)
            actions += [] if event is None else tracker.happened(event)
        elif row.get("list") == "/session/status":
            at_work = set(row["body"])
        elif row.get("list") == "/permission":
            permissions = [read_request(one, DIRECTORY) for one in row["body"]]
            actions += tracker.listed(DIRECTORY, permissions, at_work, _of_kind(tracker, is_question=False))
        elif row.get("list") == "/question":
            listed = [*permissions, *(read_question(one, DIRECTORY) for one in row["body"])]
            actions += tracker.listed(DIRECTORY, listed, at_work, tracker.waiting)
    return actions


def _of_kind(tracker: RequestTracker, *, is_question: bool) -> frozenset[str]:
    return frozenset(one for one in tracker.waiting if is_question_id(one) is is_question)


def brief(action: Action) -> Brief:
    match action:
        case JudgeRequest(asked):
            return ("judge", asked.request_id)
        case LookAtSession(session):
            return ("look", session)
        case CloseSession(session):
            return ("close", session)
        case RecordReply(_, request_id, reply):
            return ("record", request_id, reply)
        case Withdraw(_, request_id, cause):
            return ("withdraw", request_id, cause)
        case Note(_, request_id, ok=True):
            return ("ran", request_id)
        case _:
            raise AssertionError(action)
