"""The steps common to the hooks of all agents: the event they read, and the call they make of it."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from workers.bridges.hooks.question import decided, hooked_call
from workers.bridges.hooks.settings import HookSettings
from workers.transport.place import BridgeError, GatewayRefusalError

EVENT: dict[str, Any] = {"hook_event_name": "BeforeTool", "session_id": "s 1", "cwd": "/srv/shop"}
BODY: dict[str, Any] = {"request_id": "r1", "tool_name": "bash", "input": {}}


def test_a_call_is_asked_in_the_events_session_and_folder() -> None:
    call = hooked_call("gemini", EVENT, {**BODY, "tool": None}, HookSettings("opencode"))
    assert call.session.startswith("s_1")
    claim = {"name": "gemini s_1", "call": "r1"}
    assert call.body == {"agent": "gemini", "cwd": "/srv/shop", "operands": "ask", **BODY, "claim": claim}


def test_a_session_that_is_named_counts_for_more_than_the_events() -> None:
    settings = HookSettings("opencode")
    settings.session = "mine"
    assert hooked_call("gemini", EVENT, BODY, settings).session == "mine"


@pytest.mark.parametrize(("agent", "more"), [("reviewer", {"parent": "codex"}), ("codex", {})])
def test_a_sub_agent_names_its_parent(agent: str, more: dict[str, str]) -> None:
    body = hooked_call("codex", EVENT, {**BODY, "agent": agent}, HookSettings("opencode")).body
    assert {name: body[name] for name in ("agent", "parent") if name in body} == {"agent": agent, **more}


def test_an_event_without_a_session_is_refused() -> None:
    with pytest.raises(BridgeError, match="the hook's input has no `session_id`"):
        hooked_call("gemini", {"cwd": "/"}, BODY, HookSettings("opencode"))


def test_an_event_that_the_hook_does_not_answer_is_refused_unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(json.dumps(EVENT).encode())))
    with pytest.raises(BridgeError, match="`BeforeTool` is not an event of this hook; it answers One and Two"):
        decided(HookSettings("opencode"), "gemini", ("One", "Two"), lambda _: pytest.fail("asked"))


@pytest.mark.parametrize(
    ("status", "is_temporary"), [(400, False), (401, False), (404, False), (429, True), (500, False), (503, True)]
)
def test_a_refusal_is_tried_again_only_if_it_may_pass(status: int, is_temporary: bool) -> None:
    assert GatewayRefusalError(status, {}).is_temporary is is_temporary
