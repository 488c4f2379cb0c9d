"""The ACP bridge's reading of messages, without any process: recorded conversations, and messages agents may send."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.workers.bridges.acp_talk import SESSION, asks, chosen
from tests.workers.bridges.recorded import questions_in
from workers.bridges.acp import AcpWire, call_of
from workers.bridges.askers import digest_of
from workers.bridges.race import HostAnswer, RpcQuestion, key_of
from workers.bridges.stdio import line_of
from workers.bridges.tool_calls import CallVerdict, ask_body

ROOT = "/home/user/project"


def wire() -> AcpWire:
    return AcpWire("gemini", "run_1")


def question(**call: Any) -> RpcQuestion:
    found = wire().question_of(asks(0, **call))
    assert isinstance(found, RpcQuestion)
    return found


def judged(**tool_call: Any) -> tuple[str, dict[str, Any], str, Any]:
    call = call_of({"toolCallId": "c", **tool_call}, "r", ROOT)
    assert call.metadata
    return call.tool_name, call.input, call.metadata["judged_on"], call.said


def test_recorded_gemini_is_judged_by_the_title_of_a_command() -> None:
    [asked] = questions_in("gemini/shell", wire())
    assert (asked.call.tool_name, asked.cwd) == ("bash", ROOT)
    assert asked.call.input == {"command": f"echo made > {ROOT}/proof-a.txt && echo shown-a"}
    assert asked.call.metadata == {
        "kind": "execute",
        "title": asked.call.input["command"],
        "judged_on": "title",
        "text": f"[current working directory {ROOT}] (Makes proof a)",
        "note": "the agent sent no exact input; this was judged on what it shows",
    }


def test_recorded_gemini_is_judged_by_the_file_of_a_diff() -> None:
    asked, _ = questions_in("gemini/edit", wire())
    assert (asked.call.tool_name, asked.call.input) == ("edit", {"filePath": f"{ROOT}/new.txt"})
    assert asked.call.metadata
    assert asked.call.metadata["diff"] == f"--- {ROOT}/new.txt\n+new"


def test_recorded_opencode_is_judged_by_its_raw_input() -> None:
    bash, edit, outside = questions_in("acp/opencode", AcpWire("opencode", "run_1"))
    assert (bash.call.tool_name, bash.call.input["command"]) == ("bash", f"touch {ROOT}/proof-a.txt")
    assert (edit.call.tool_name, edit.call.input["filePath"]) == ("edit", f"{ROOT}/new.txt")
    assert (outside.call.tool_name, outside.call.input["command"]) == ("bash", "ls /etc/hostname")
    assert {one.call.metadata["judged_on"] for one in (bash, edit, outside) if one.call.metadata} == {"rawInput"}
    assert len({one.call.request_id for one in (bash, edit, outside)}) == 3


def test_a_recorded_session_that_is_loaded_again_asks_anew_for_the_same_call_in_the_same_session() -> None:
    """The repeated history asks nothing; the second request has the first one's digest, and another id."""
    first, again = questions_in("acp/opencode-load", AcpWire("opencode", "run_1"))
    assert (first.session, first.cwd, first.call.input["command"]) == (again.session, ROOT, "touch proof")
    assert again.cwd == ROOT
    assert (first.call.call_id, again.call.call_id) == ("call_a", "call_b")
    assert digest_of(ask_body(first.call)) == digest_of(ask_body(again.call))


@pytest.mark.parametrize(
    ("tool_call", "expected"),
    [
        (
            {"kind": "execute", "title": "t", "rawInput": {"command": "ls"}},
            ("bash", {"command": "ls"}, "rawInput", None),
        ),
        (
            {"kind": "execute", "title": "t", "rawInput": {"command": ["bash", "-lc", "ls | wc"]}},
            ("bash", {"command": "ls | wc"}, "rawInput", None),
        ),
        (
            {"kind": "read", "title": "t", "locations": [{"path": "a.txt"}]},
            ("read", {"filePath": f"{ROOT}/a.txt"}, "what is shown", None),
        ),
        (
            {"kind": "delete", "title": "t", "rawInput": {"path": "/x/a"}},
            ("edit", {"path": "/x/a", "filePath": "/x/a"}, "rawInput", None),
        ),
        (
            {"kind": "fetch", "title": "t", "rawInput": {"url": "https://example.com"}},
            ("webfetch", {"url": "https://example.com"}, "rawInput", None),
        ),
    ],
)
def test_a_call_is_judged_under_the_names_of_opencode(tool_call: dict[str, Any], expected: Any) -> None:
    assert judged(**tool_call) == expected


def test_every_file_of_an_edit_is_judged() -> None:
    diffs = [{"type": "diff", "path": path} for path in ("a", "/etc/passwd")]
    tool, found, _, _ = judged(kind="edit", title="t", content=diffs, rawInput={"filepath": f"{ROOT}/a"})
    assert (tool, found["patchText"].split("\n")[1:-1]) == (
        "apply_patch",
        [f"*** Update File: {ROOT}/a", "*** Update File: /etc/passwd"],
    )


def test_a_move_is_judged_by_both_of_its_places() -> None:
    tool, found, on, _ = judged(kind="move", title="t", locations=[{"path": "a"}, {"path": "/b"}])
    assert (tool, "/b" in found["patchText"], on) == ("apply_patch", True, "what is shown")


@pytest.mark.parametrize(
    ("tool_call", "permission", "always"),
    [
        ({"title": "ask the oracle"}, "other", ["ask the oracle"]),
        ({"kind": "other", "title": "rm *"}, "other", []),
        ({"kind": "execute", "title": "ls; curl evil…"}, "execute", ["ls; curl evil…"]),
        ({"kind": "execute", "title": "ls", "rawInput": {"cmd": "rm -rf /"}}, "execute", ["ls"]),
        ({"kind": "edit", "title": "Edit"}, "edit", ["Edit"]),
        ({"kind": "edit", "title": "Edit", "rawInput": {"path": "a\n*** Update File: b"}}, "edit", ["Edit"]),
    ],
)
def test_what_is_known_by_its_title_alone_is_asked_about_as_its_kind(
    tool_call: dict[str, Any], permission: str, always: list[str]
) -> None:
    said = judged(**tool_call)[3]
    assert said == {"permission": permission, "patterns": [tool_call["title"]], "always": always}


@pytest.mark.parametrize(
    ("shown", "tool", "found"),
    [
        ('{"command": "touch proof"}', "bash", {"command": "touch proof"}),
        ('{"command": "touch pr', "other", {"title": "Bash"}),
    ],
)
def test_a_request_that_names_the_tool_alone_is_judged_by_the_input_shown_before_and_never_by_the_tools_name(
    shown: str, tool: str, found: dict[str, Any]
) -> None:
    """As Kimi Code CLI 2.1.0 asks; constructed from observed messages."""
    talk = wire()
    text = {"type": "content", "content": {"type": "text", "text": shown}}
    call = {"toolCallId": "0:call_1", "title": "Bash", "content": [text]}
    update = {"sessionUpdate": "tool_call", "kind": "execute", "status": "pending", **call}
    talk.heard_from_agent({"method": "session/update", "params": {"sessionId": SESSION, "update": update}})
    asking = asks(0)
    words = {"type": "text", "text": "Requesting approval to Running: touch proof"}
    asking["params"]["toolCall"] = {**call, "content": [{"type": "content", "content": words}]}
    asked = talk.question_of(asking)
    assert isinstance(asked, RpcQuestion)
    assert (asked.call.tool_name, asked.call.input) == (tool, found)


def test_what_was_said_of_a_call_before_is_known_when_it_asks() -> None:
    speaking = wire()
    update = {"sessionUpdate": "tool_call", "toolCallId": "call_0", "kind": "execute", "rawInput": {"command": "ls -l"}}
    speaking.heard_from_agent({"method": "session/update", "params": {"sessionId": SESSION, "update": update}})
    message = asks(0)
    message["params"]["toolCall"] = {"toolCallId": "call_0"}
    found = speaking.question_of(message)
    assert isinstance(found, RpcQuestion)
    assert (found.call.tool_name, found.call.input) == ("bash", {"command": "ls -l"})


@pytest.mark.parametrize(
    ("params", "wrong"),
    [
        (None, "it has no `id` or no `params`"),
        ({"toolCall": {"toolCallId": "c"}, "options": []}, "it has no `sessionId`"),
        ({"sessionId": "s", "toolCall": {}, "options": []}, "it has no `toolCall` with a `toolCallId`"),
        ({"sessionId": "s", "toolCall": {"toolCallId": "c"}}, "it offers no option that this bridge knows"),
        (
            {"sessionId": "s", "toolCall": {"toolCallId": "c"}, "options": [{"optionId": 1, "kind": "allow_once"}, 2]},
            "it offers no option that this bridge knows",
        ),
    ],
)
def test_a_request_that_cannot_be_read_says_what_is_wrong(params: Any, wrong: str) -> None:
    assert wire().question_of({"id": 0, "method": "session/request_permission", "params": params}) == wrong


@pytest.mark.parametrize("behaviour", ["deny", "agent"])
def test_nothing_but_an_allow_allows(behaviour: Any) -> None:
    answer = json.loads(wire().answer(question(), CallVerdict(behaviour, "", "r")))
    assert answer == chosen(0, "cancel")


def test_an_allow_of_another_input_does_not_allow_this_one() -> None:
    verdict = CallVerdict("allow", "", "r", None, {"command": "ls"})
    assert json.loads(wire().answer(question(), verdict)) == chosen(0, "cancel")


def test_of_several_options_of_a_kind_the_first_is_taken() -> None:
    options = [("all", "allow_always"), ("one", "allow_once"), ("two", "allow_once")]
    assert json.loads(wire().answer(question(options=options), CallVerdict("allow", "", "r"))) == chosen(0, "one")


def test_an_always_without_an_allow_once_passes_as_the_editor_chose_it() -> None:
    line = line_of(chosen(0, "all"))
    asked = question(options=[("all", "allow_always"), ("no", "reject_once")])
    assert wire().answer_of(asked, chosen(0, "all"), line) == HostAnswer("session", line)


def test_an_option_that_was_not_offered_is_no_answer() -> None:
    assert wire().answer_of(question(), chosen(0, "something"), b"") is None


def test_ids_are_told_apart_as_agents_do() -> None:
    assert [key_of(one) for one in (0, 0.0, "0", None, 0.5)] == ["0", "0", '"0"', "null", "0.5"]


def begins_in(mode: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "result": {"sessionId": "s", "modes": {"currentModeId": mode}}}


def changes_to(mode: str) -> dict[str, Any]:
    update = {"sessionUpdate": "current_mode_update", "currentModeId": mode}
    return {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": update}}


@pytest.mark.parametrize("mode", ["auto", "bypassPermissions", "acceptEdits", "auto-edit", "yolo", "full-access"])
def test_a_mode_that_asks_nobody_is_told_of_once_whenever_it_begins(mode: str) -> None:
    told: list[str] = []
    wire = AcpWire("qwen", "run_1", told.append)
    for message in (begins_in(mode), changes_to(mode), changes_to("default"), changes_to(mode)):
        wire.heard_from_agent(message)
    assert [line.split(":")[0] for line in told] == [f"`qwen` is in mode `{mode}`"] * 2


@pytest.mark.parametrize("mode", ["default", "plan", "ask", "read-only"])
def test_a_mode_that_asks_is_not_told_of(mode: str) -> None:
    told: list[str] = []
    AcpWire("qwen", "run_1", told.append).heard_from_agent(begins_in(mode))
    assert told == []
