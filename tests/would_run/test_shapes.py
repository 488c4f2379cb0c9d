from __future__ import annotations

from typing import Any

import pytest

from ledger.core.events import Actor
from ledger.core.policy import Demand
from ledger.session.state import Request
from ledger.session.would_run.description import LONG_LINES, SHAPE_CHARS, describe_request


def _shape(tool: str = "bash", given: Any = None, *patterns: str, **more: Any) -> str | None:
    told = {"permission": tool, "tool_name": tool, "input": given, "patterns": patterns, "cwd": "/srv/shop"}
    told |= {"asker": Actor("agent", "w"), **more}
    asked = Request(request_id="r1", version=1, asked_ms=0, digest="", **told)
    return describe_request(asked).shape


def _line(command: str, **more: Any) -> str | None:
    return _shape("bash", {"command": command}, command, **more)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("git push origin main", "git push origin release"),
        ("npm test -- a", "npm test -- b"),
        ("git commit -m one", "git commit -m two"),
        ("git add a && git commit -m one", "git add b && git commit -m two"),
        ("terraform plan -out=a", "terraform plan -out=a"),
    ],
)
def test_commands_of_one_normal_form_have_one_shape(one: str, other: str) -> None:
    assert _line(one) is not None
    assert _line(one) == _line(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("git push origin main", "git push --force origin main"),
        ("git push origin main", "git pull origin main"),
        ("git add a && git commit -m b", "git add a; git commit -m b"),
        ("git add a", "git add a && git add b"),
        ("A=1 make x", "A=2 make x"),
        ("make x > a", "make x > b"),
        ("curl https://a.example/$(id)", "curl https://b.example/$(id)"),
        ("npx jest a", "npx eslint a"),
        ("cat a.txt", "cat ~/.ssh/id_rsa"),
        ("unheard-of --fast x", "unheard-of --slow x"),
    ],
)
def test_commands_of_different_normal_forms_or_dangers_have_different_shapes(one: str, other: str) -> None:
    assert _line(one) is not None
    assert _line(one) != _line(other)


def test_requests_with_different_offered_rules_have_different_shapes() -> None:
    assert _line("git push a", always=("git push *",)) == _line("git push b", always=("git push *",))
    assert _line("git push a", always=("git push *",)) != _line("git push b", always=("git *",))


def test_who_asks_and_where_is_no_part_of_a_shape() -> None:
    assert _line("git push a") == _line("git push a", cwd="/srv/bank", agent="review", asker=Actor("agent", "other"))


def test_changes_of_files_are_alike_only_where_their_texts_are_equal() -> None:
    text = {"old_string": "one", "new_string": "two"}
    assert _shape("edit", {"file_path": "a", **text}) == _shape("edit", {"file_path": "b", **text})
    assert _shape("edit", {"file_path": "a", **text}) != _shape("edit", {"file_path": "a", **text, "new_string": "3"})


def test_calls_with_other_members_have_different_shapes() -> None:
    assert _shape("mcp__a__b", {"x": 1}) == _shape("mcp__a__b", {"x": 2})
    assert _shape("mcp__a__b", {"x": 1}) != _shape("mcp__a__b", {"x": 1, "y": 1})
    assert _shape("mcp__a__b", {"x": 1}) != _shape("mcp__a__c", {"x": 1})


@pytest.mark.parametrize(
    "alone",
    [
        _shape("ExitPlanMode", {"plan": "go"}),
        _shape("AskUserQuestion", {"questions": [{"question": "which?", "options": []}]}),
        _line("git push", demands=(Demand(answer_by="passkey"),)),
        _line("git push", round=2),
        _line("git push", redacted=True),
        _line("\n".join(["git push"] * (LONG_LINES + 1))),
        _line("git push \u202emain"),
        _line("git push m\u0430in"),
    ],
)
def test_what_must_be_read_by_itself_has_no_shape(alone: str | None) -> None:
    assert alone is None


def test_a_shape_is_short_whatever_the_request_holds() -> None:
    shape = _shape("bash", {"command": "echo " + "a" * 1500})
    assert shape is not None
    assert len(shape) == SHAPE_CHARS
