"""The recorded session that the demo plays: whole, consistent with its own rules, and free of anybody's machine."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest

from ledger.core.events import ToolRef
from ledger.policy import Rule, Verdict, evaluate, strictest

ROOT = Path(__file__).parents[2]
SESSION = ROOT / "workers" / "data" / "recorded-session.jsonl"
CLAUDE = ROOT / "tests" / "data" / "claude-recorded.jsonl"

ABSOLUTE_PATH = re.compile(r"(?<![\w/.~*<])/\w[\w.-]*(?:/[\w.@-]+)*")
"""A path from the root: neither the rest of a relative one, nor of an address, nor a closing tag."""

OUTPUT_CHARS_MAX = 1100


class Header(msgspec.Struct, forbid_unknown_fields=True):
    recorded: str
    made: str
    project: str
    cwd: str
    prompt: str
    rules: tuple[Rule, ...]


class Reply(msgspec.Struct, forbid_unknown_fields=True):
    reply: Literal["once", "always", "reject"]
    message: str | None = None
    cause: Literal["cascade"] | None = None


class Ask(msgspec.Struct, forbid_unknown_fields=True, tag_field="kind", tag="ask"):
    at_ms: int
    id: str
    permission: str
    patterns: tuple[str, ...]
    always: tuple[str, ...]
    metadata: dict[str, Any]
    tool: ToolRef
    parallel: bool
    asked: bool
    reply: Reply | None = None


class ToolFinished(msgspec.Struct, forbid_unknown_fields=True, tag_field="kind", tag="tool_finished"):
    at_ms: int
    call_id: str
    title: str
    output: str
    ok: bool
    exit_code: int | None = None


HEADER, *LINES = SESSION.read_text(encoding="utf-8").splitlines()
header = msgspec.json.decode(HEADER, type=Header)
lines = [msgspec.json.decode(line, type=Ask | ToolFinished) for line in LINES]
asks = [line for line in lines if isinstance(line, Ask)]
finished = [line for line in lines if isinstance(line, ToolFinished)]


def verdict(ask: Ask) -> Verdict:
    return strictest(evaluate(ask.permission, pattern, header.rules).action for pattern in ask.patterns)


def strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from itertools.chain(*map(strings, value.values()))
    elif isinstance(value, list):
        yield from itertools.chain(*map(strings, value))


def covers(first: Ask, second: Ask) -> bool:
    """Would an `always` on the first release the second, were nothing else allowed?"""
    grants = tuple(Rule(first.permission, pattern, Verdict.ALLOW) for pattern in first.always)
    return all(evaluate(second.permission, pattern, grants).action is Verdict.ALLOW for pattern in second.patterns)


def test_the_recording_says_what_made_it() -> None:
    assert (header.recorded, header.made, header.project) == ("opencode 1.18.33", "2026-11-21", "shop")


def test_every_request_has_an_id_of_its_own() -> None:
    assert len({ask.id for ask in asks}) == len(asks)


def test_lines_are_in_order_of_time() -> None:
    assert [line.at_ms for line in lines] == sorted(line.at_ms for line in lines)


def test_every_ask_has_patterns_something_to_grant_and_a_call() -> None:
    assert [ask.id for ask in asks if not (ask.patterns and ask.always and ask.tool.call_id)] == []


def test_a_person_is_asked_at_least_eight_times() -> None:
    assert len([ask for ask in asks if ask.asked]) >= 8


@pytest.mark.parametrize("ask", asks, ids=lambda ask: ask.id)
def test_the_rules_of_the_header_say_whether_a_person_was_asked(ask: Ask) -> None:
    assert (verdict(ask) is Verdict.ASK, ask.reply is not None) == (ask.asked, ask.asked)


def test_rules_allow_some_calls_and_deny_one_without_asking() -> None:
    assert {verdict(ask) for ask in asks if not ask.asked} == {Verdict.ALLOW, Verdict.DENY}


def test_an_always_on_one_request_covers_another_that_waits_beside_it() -> None:
    pairs = [
        (first.id, second.id)
        for first, second in itertools.pairwise(ask for ask in asks if ask.asked)
        if first.parallel and first.tool.message_id == second.tool.message_id and covers(first, second)
    ]
    assert pairs == [("call_log", "call_log_patch")]


def test_every_call_finishes_once_and_after_its_last_request() -> None:
    asked_last = {ask.tool.call_id: ask.at_ms for ask in asks}
    assert sorted(line.call_id for line in finished) == sorted(asked_last)
    assert [line.call_id for line in finished if line.at_ms < asked_last[line.call_id]] == []


def test_no_refused_call_ran() -> None:
    refused = {ask.tool.call_id for ask in asks if verdict(ask) is Verdict.DENY}
    refused |= {ask.tool.call_id for ask in asks if ask.reply and ask.reply.reply == "reject"}
    assert [line.call_id for line in finished if line.call_id in refused and line.ok] == []


def test_every_edit_keeps_the_diff_that_a_person_saw() -> None:
    edits = [ask for ask in asks if ask.permission == "edit"]
    assert [ask.id for ask in edits if not ask.metadata["diff"].startswith("Index: /home/dev/")] == []
    assert len(edits) == 2


def test_outputs_are_short() -> None:
    assert [line.call_id for line in finished if len(line.output) > OUTPUT_CHARS_MAX] == []


@pytest.mark.parametrize("file", [SESSION, CLAUDE], ids=lambda file: file.stem)
def test_no_recording_names_a_path_outside_the_recorded_home(file: Path) -> None:
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    paths = {path for row in rows for text in strings(row) for path in ABSOLUTE_PATH.findall(text)}
    assert {path for path in paths if not path.startswith("/home/dev/")} == set()
    assert paths


def test_every_request_of_the_claude_recording_is_answered_once_and_after_it() -> None:
    _, *rows = [json.loads(line) for line in CLAUDE.read_text(encoding="utf-8").splitlines()]
    requests = [row["message"]["request_id"] for row in rows if row["direction"] == "from_client"]
    answers = [row["message"]["response"]["request_id"] for row in rows if row["direction"] == "to_client"]
    assert answers == requests
    assert len(set(requests)) == len(requests)
    assert [row["direction"] for row in rows] == ["from_client", "to_client"] * len(requests)
