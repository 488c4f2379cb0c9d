"""Malformed, oversized or unknown input gets one clear message, and nothing is written."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ledger import InputError, Ledger, Session, Timeouts
from ledger.core.events import Actor, ToolRef
from ledger.core.limits import DURATION_MS_MAX, EVENT_BYTES, METADATA_BYTES
from tests.api.actors import events_of, pend, pending_ids, raised, text_of_input_error

ITSELF: list[Any] = []
ITSELF += [ITSELF, ITSELF]

LONE = "\ud800"


def nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels):
        value = {"a": value}
    return value


ASKS: list[tuple[dict[str, Any], str]] = [
    ({"request_id": ""}, "the request id is empty"),
    (
        {"request_id": "a b"},
        "the request id 'a b' holds white space or characters that cannot be shown",
    ),
    (
        {"request_id": "a\nb"},
        "the request id 'a\\nb' holds white space or characters that cannot be shown",
    ),
    ({"request_id": "x" * 201}, f"the request id `{'x' * 40}…` has 201 characters; at most 200 are accepted"),
    ({"request_id": 7}, "the request id must be a string, not int"),
    ({"permission": ""}, "the permission has 0 characters; 1 to 256 are accepted"),
    ({"permission": "x" * 257}, "the permission has 257 characters; 1 to 256 are accepted"),
    ({"permission": None}, "the permission must be a string, not NoneType"),
    ({"permission": LONE}, "the permission '\\ud800' holds characters that cannot be shown"),
    ({"permission": "a\x1b[31m"}, "the permission 'a\\x1b[31m' holds characters that cannot be shown"),
    ({"patterns": "ls"}, "patterns are a list, not the single text 'ls'"),
    ({"patterns": b"ls"}, "patterns are a list, not the single text b'ls'"),
    ({"patterns": None}, "patterns are a list, not NoneType"),
    ({"patterns": [7]}, "a pattern must be a string, not int"),
    ({"patterns": ["x"] * 257}, "257 patterns are too many; at most 256 are accepted"),
    ({"patterns": ["x" * 65537]}, "a pattern takes 65537 bytes; at most 65536 are accepted"),
    ({"patterns": ["ä" * 32769]}, "a pattern takes 65538 bytes; at most 65536 are accepted"),
    ({"patterns": [LONE]}, "the pattern '\\ud800' is not valid Unicode"),
    ({"always": [LONE]}, "the always pattern '\\ud800' is not valid Unicode"),
    ({"always": "ls *"}, "always patterns are a list, not the single text 'ls *'"),
    ({"metadata": []}, "metadata must be a JSON object, not list"),
    ({"metadata": "{}"}, "metadata must be a JSON object, not str"),
    ({"metadata": {1: 2}}, "the metadata has the key 1; the keys of a JSON object are strings"),
    ({"metadata": {"a": [{None: 2}]}}, "the metadata has the key None; the keys of a JSON object are strings"),
    ({"metadata": {"a": float("nan")}}, "the metadata holds `nan`, which JSON has no form for"),
    ({"metadata": {"a": [float("-inf")]}}, "the metadata holds `-inf`, which JSON has no form for"),
    ({"metadata": {"a": b"x"}}, "the metadata holds a value of type bytes, which JSON has no form for"),
    ({"metadata": {"a": {1, 2}}}, "the metadata holds a value of type set, which JSON has no form for"),
    (
        {"metadata": {"a": dt.date(2026, 1, 1)}},
        "the metadata holds a value of type date, which JSON has no form for",
    ),
    ({"metadata": {"a": object()}}, "the metadata holds a value of type object, which JSON has no form for"),
    ({"metadata": nested(65)}, "the metadata is nested deeper than 64 levels"),
    ({"metadata": {"a": ITSELF}}, f"the metadata has more members than fit into {METADATA_BYTES} bytes"),
    (
        {"metadata": {"a": "x" * METADATA_BYTES}},
        f"the metadata takes {METADATA_BYTES + 8} bytes; at most {METADATA_BYTES} are accepted",
    ),
    (
        {"metadata": {"a": LONE}},
        "the metadata holds text that is not valid Unicode",
    ),
    ({"tool_input": float("nan")}, "the tool input holds `nan`, which JSON has no form for"),
    ({"tool_input": {2: 3}}, "the tool input has the key 2; the keys of a JSON object are strings"),
    ({"tool_name": ""}, "the tool name has 0 characters; 1 to 256 are accepted"),
    ({"tool": {"call_id": "c"}}, "tool must be an object with exactly `message_id` and `call_id`"),
    ({"tool": 7}, "tool must be an object with exactly `message_id` and `call_id`"),
    ({"tool": {"message_id": "m", "call_id": ""}}, "the call id is empty"),
    ({"tool": ToolRef("m", 7)}, "the call id must be a string, not int"),  # type: ignore[arg-type]
    ({"agent": LONE}, "the agent '\\ud800' holds characters that cannot be shown"),
    ({"parent": ""}, "the parent has 0 characters; 1 to 256 are accepted"),
    ({"actor": ""}, "the actor has 0 characters; 1 to 256 are accepted"),
    ({"actor": 7}, "the actor must be a string, not int"),
    ({"actor": Actor(7, "x")}, "the actor's `kind` must be a string, not int"),  # type: ignore[arg-type]
    ({"actor": Actor("agent", None)}, "the actor's `name` must be a string, not NoneType"),  # type: ignore[arg-type]
    ({"actor": Actor("agent", "x", via=7)}, "the actor's `via` must be a string, not int"),  # type: ignore[arg-type]
    ({"actor": Actor("agent", ["x"])}, "the actor's `name` must be a string, not list"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("what", "text"), ASKS, ids=[text[:60] for _, text in ASKS])
async def test_a_malformed_ask_gets_one_clear_message_and_writes_nothing(
    ledger: Ledger, what: dict[str, Any], text: str
) -> None:
    session = await ledger.session("ses_1")
    asked = {"permission": "bash", "patterns": ["ls"], **what}
    assert await text_of_input_error(session.ask(**asked)) == text
    assert await events_of(session) == ["session_opened"]


LARGEST: list[dict[str, Any]] = [
    {"request_id": "x" * 200},
    {"permission": "x" * 256},
    {"patterns": ["x" * 65536]},
    {"patterns": ["x"] * 256},
    {"metadata": nested(63)},
    {"metadata": {"a": "x" * (METADATA_BYTES - 8)}},
    {"metadata": {"big": 2**70, "": "\x00", "ключ": "\U0001f600"}},
    {"tool_input": [None, True, 1.5, "x"]},
    {"patterns": []},
]


@pytest.mark.parametrize("what", LARGEST, ids=lambda what: next(iter(what)))
async def test_the_largest_and_strangest_that_is_taken_comes_back_as_it_was(
    ledger: Ledger, what: dict[str, Any]
) -> None:
    session = await ledger.session("ses_1", rules=[{"permission": "*", "pattern": "*", "action": "ask"}])
    asked = {"permission": "bash", "patterns": ["ls"], **what}
    result = await session.submit(**asked)
    if result.outcome is None:
        [shown] = (await ledger.state_at("ses_1")).state.pending.values()
        assert {name: getattr(shown, {"tool_input": "input"}.get(name, name)) for name in what} == {
            name: tuple(value) if name == "patterns" else value for name, value in what.items()
        }


Call = Callable[[Ledger, Session], Awaitable[object]]

CALLS: list[tuple[str, Call, str]] = [
    ("session id", lambda ledger, _: ledger.session(""), "the session id is empty"),
    (
        "session id with a space",
        lambda ledger, _: ledger.session("ses 1"),
        "the session id 'ses 1' holds white space or characters that cannot be shown",
    ),
    (
        "project id",
        lambda ledger, _: ledger.session("s", project="x" * 201),
        f"the project id `{'x' * 40}…` has 201 characters; at most 200 are accepted",
    ),
    ("agent", lambda ledger, _: ledger.session("s", agent=""), "the agent has 0 characters; 1 to 256 are accepted"),
    ("parent", lambda ledger, _: ledger.session("s", parent=""), "the parent session id is empty"),
    (
        "dialect",
        lambda ledger, _: ledger.session("s", dialect="cobol"),
        "the dialect `cobol` is not known; known are ",
    ),
    (
        "folder",
        lambda ledger, _: ledger.session("s", cwd=7),  # type: ignore[arg-type]
        "the working directory must be a string, not int",
    ),
    (
        "home",
        lambda ledger, _: ledger.session("s", home="ann"),
        "the home directory 'ann' must be an absolute path",
    ),
    (
        "answering",
        lambda ledger, _: ledger.session("s", answering="nobody"),  # type: ignore[arg-type]
        "a setting of session `s` is not valid: Invalid enum value 'nobody' - at `$.answering`",
    ),
    (
        "negative time",
        lambda ledger, _: ledger.session("s", timeouts=Timeouts(attended=-1)),
        "the attended time of -1000 ms is out of range; at least 1 ms and at most ten years are accepted",
    ),
    (
        "no time",
        lambda ledger, _: ledger.session("s", timeouts=Timeouts(unattended=0)),
        "the unattended time of 0 ms is out of range; at least 1 ms and at most ten years are accepted",
    ),
    (
        "nan time",
        lambda ledger, _: ledger.session("s", timeouts=Timeouts(cap=float("nan"))),
        "the longest time must be a number of seconds, or None for never, not nan",
    ),
    (
        "infinite time",
        lambda ledger, _: ledger.session("s", timeouts=Timeouts(cap=float("inf"))),
        "the longest time must be a number of seconds, or None for never, not inf",
    ),
    (
        "worded time",
        lambda ledger, _: ledger.session("s", timeouts=Timeouts(attended="60s")),  # type: ignore[arg-type]
        "the attended time must be a number of seconds, or None for never, not '60s'",
    ),
    (
        "grant for too long",
        lambda _, session: session.grant("bash", expires_in_ms=DURATION_MS_MAX + 1),
        f"the time to live of {DURATION_MS_MAX + 1} ms is out of range; at least 1 ms and at most ten years are accepted",
    ),
    (
        "grant for half a ms",
        lambda _, session: session.grant("bash", expires_in_ms=0.5),  # type: ignore[arg-type]
        "the time to live must be a whole number of milliseconds, not 0.5",
    ),
    (
        "project grant for no time",
        lambda ledger, _: ledger.grant_in_project("p", "bash", expires_in_ms=0),
        "the time to live of 0 ms is out of range; at least 1 ms and at most ten years are accepted",
    ),
    ("grant pattern", lambda _, session: session.grant("bash", LONE), "the pattern '\\ud800' is not valid Unicode"),
    ("grant id", lambda ledger, _: ledger.revoke(""), "the grant id is empty"),
    (
        "message",
        lambda _, session: session.reply("call_1", "reject", message="x" * 16385),
        "the message takes 16385 bytes; at most 16384 are accepted",
    ),
    (
        "message of another type",
        lambda _, session: session.reply("call_1", "reject", message=7),  # type: ignore[arg-type]
        "the message must be a string, not int",
    ),
    (
        "message with a lone surrogate",
        lambda _, session: session.reply("call_1", "reject", message=LONE),
        "the message '\\ud800' is not valid Unicode",
    ),
    (
        "cause",
        lambda _, session: session.cancel("call_1", cause="bored"),  # type: ignore[arg-type]
        "the event cannot be encoded: Invalid enum value 'bored' - at `$.event.cause`",
    ),
    ("client id", lambda _, session: session.connect("", actor="ann"), "the client id is empty"),
    (
        "client name",
        lambda _, session: session.connect("phone", actor=""),
        "the client name has 0 characters; 1 to 256 are accepted",
    ),
    (
        "notification",
        lambda _, session: session.note_notification("call_1", "ntfy", "maybe"),
        "the event cannot be encoded: Invalid enum value 'maybe' - at `$.event.result`",
    ),
    (
        "call id",
        lambda _, session: session.note_tool_finished("call_1", call_id="x" * 201),
        f"the call id `{'x' * 40}…` has 201 characters; at most 200 are accepted",
    ),
]


@pytest.mark.parametrize(("call", "text"), [row[1:] for row in CALLS], ids=[row[0] for row in CALLS])
async def test_every_other_malformed_argument_gets_one_clear_message_too(ledger: Ledger, call: Call, text: str) -> None:
    session = await ledger.session("ses_1")
    await pend(session, "call_1")
    error = await raised(call(ledger, session))
    assert isinstance(error, InputError)
    assert error.text.startswith(text)
    assert await events_of(session) == ["session_opened", "asked"]
    assert await pending_ids(session) == ["call_1"]


RULES: list[tuple[Any, str]] = [
    ([{"permission": "bash", "pattern": "*"}], "action"),
    ([{"permission": "bash", "pattern": "*", "action": "maybe"}], "maybe"),
    ([7], "rule 1 must be an object with permission, pattern and action"),
    ({"permission": {"bash": 7}}, "7"),
]


@pytest.mark.parametrize(("rules", "named"), RULES, ids=str)
async def test_rules_that_are_none_open_no_session(ledger: Ledger, rules: Any, named: str) -> None:
    text = await text_of_input_error(ledger.session("ses_1", rules=rules))
    assert named in text
    assert [name async for name in ledger.sessions()] == []


async def test_a_ruleset_that_is_too_large_is_refused(ledger: Ledger) -> None:
    rules = [{"permission": "bash", "pattern": f"{number} {'x' * 6000}", "action": "ask"} for number in range(100)]
    text = await text_of_input_error(ledger.session("ses_1", rules=rules))
    assert text.startswith("the rules take ")
    assert text.endswith("; at most 524288 are accepted")


@pytest.mark.slow
async def test_what_cannot_be_written_fails_alone_and_not_what_is_asked_beside_it(ledger: Ledger) -> None:
    session = await ledger.session("ses_1")
    huge = ["x" * 65000] * (EVENT_BYTES // 65000 + 1)
    answers = await asyncio.gather(
        session.submit("bash", ["ls 1"], request_id="call_1"),
        session.submit("bash", huge, request_id="call_2"),
        session.submit("bash", ["ls 3"], request_id="call_3"),
        return_exceptions=True,
    )
    refused = answers[1]
    assert isinstance(refused, InputError)
    assert refused.text.startswith("the event takes ")
    assert await pending_ids(session) == ["call_1", "call_3"]
    assert await events_of(session) == ["session_opened", "asked", "asked"]
