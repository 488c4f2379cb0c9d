"""The Codex bridge's reading of messages, without any process: recorded conversations, and any message of a server."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.workers.bridges.codex_talk import THREAD, asks_command, asks_patch, decided, resolved, started
from tests.workers.bridges.recorded import conversation, questions_in
from workers.bridges.codex_wire import CodexWire
from workers.bridges.race import EndedQuestions, HostAnswer, RpcQuestion, script_of
from workers.bridges.stdio import line_of
from workers.bridges.tool_calls import CallVerdict

ROOT = "/home/user/project"


def wire(*, interrupts: bool = False) -> CodexWire:
    return CodexWire("run_1", interrupts=interrupts)


def question(message: Any, speaking: CodexWire | None = None) -> RpcQuestion:
    found = (speaking or wire()).question_of(message)
    assert isinstance(found, RpcQuestion)
    return found


def test_recorded_commands_are_judged_by_what_the_shell_is_told_to_run() -> None:
    asked = questions_in("codex/parallel", wire())
    commands = {one.call.call_id: (one.call.tool_name, one.call.input["command"], one.call.always) for one in asked}
    assert commands == {
        "call_a": ("bash", f"touch {ROOT}/proof-a.txt", (f"touch {ROOT}/proof-a.txt *",)),
        "call_b": ("bash", f"touch {ROOT}/proof-b.txt && echo b", (f"touch {ROOT}/proof-b.txt *",)),
    }
    assert {one.cwd for one in asked} == {ROOT}


def test_recorded_patches_are_judged_by_the_files_of_the_item_before() -> None:
    [asked] = questions_in("codex/patch", wire())
    assert (asked.call.tool_name, asked.call.input["patchText"].split("\n")[1:-1]) == (
        "apply_patch",
        [f"*** Update File: {ROOT}/hello.txt", f"*** Update File: {ROOT}/new.txt"],
    )
    assert asked.call.metadata == {
        "diff": f"update {ROOT}/hello.txt\n@@ -1 +1 @@\n-hello world\n+hello moon\n\nadd {ROOT}/new.txt\nnew file\n"
    }


def test_every_request_in_a_recorded_conversation_ends_with_the_servers_word() -> None:
    speaking = wire()
    endings = [
        speaking.heard_from_agent(message) for origin, message in conversation("codex/parallel") if origin == "agent"
    ]
    assert [one for one in endings if one] == [EndedQuestions(key="0"), EndedQuestions(key="1")]


@pytest.mark.parametrize("name", ["sub-agent", "sub-agent-v2"])
def test_a_recorded_sub_agent_asks_below_the_thread_that_started_it(name: str) -> None:
    asked = questions_in(f"codex/{name}", wire())
    root = next(one.session for one in asked if not one.lineage)
    assert {one.lineage for one in asked} == {(), (root,)}
    assert {one.session for one in asked if one.lineage}.isdisjoint({root})
    assert {one.call.input["command"] for one in asked} == {"touch one"}


def spawns(child: object, parent: object = THREAD) -> dict[str, Any]:
    item: dict[str, Any] = {"type": "collabAgentToolCall", "id": "call_s", "tool": "spawnAgent"}
    item |= {"senderThreadId": parent, "receiverThreadIds": [child]}
    return {"method": "item/completed", "params": {"threadId": THREAD, "item": item}}


def lineage_of(thread: str, *said: dict[str, Any]) -> tuple[str, ...]:
    speaking = wire()
    for message in said:
        speaking.heard_from_agent(message)
    message = asks_command(0)
    message["params"]["threadId"] = thread
    return question(message, speaking).lineage


def test_a_sub_agent_of_a_sub_agent_has_the_whole_line_above_it() -> None:
    assert lineage_of("thr_3", spawns("thr_3", "thr_2"), spawns("thr_2")) == ("thr_2", THREAD)


@pytest.mark.parametrize("where", ["params", "result"])
def test_a_thread_that_is_started_or_resumed_says_its_parent_itself(where: str) -> None:
    thread = {"id": "thr_2", "cwd": ROOT, "parentThreadId": THREAD}
    said: dict[str, Any] = {"method": "thread/started"} if where == "params" else {"id": 3}
    assert lineage_of("thr_2", {**said, where: {"thread": thread}}) == (THREAD,)


@pytest.mark.parametrize(
    "said",
    [
        [spawns(THREAD)],
        [spawns("thr_2"), spawns(THREAD, "thr_2")],
        [spawns(7)],
        [spawns("thr_1", None)],
        [{"method": "item/completed", "params": {"threadId": THREAD, "item": {"id": "i", "type": "subAgentActivity"}}}],
    ],
    ids=["its own parent", "a circle", "no id", "no parent", "only activity"],
)
def test_a_line_of_parents_that_cannot_be_is_not_believed(said: list[dict[str, Any]]) -> None:
    assert lineage_of(THREAD, *said) == ()


def test_the_parent_that_was_told_first_stays() -> None:
    assert lineage_of("thr_2", spawns("thr_2"), spawns("thr_2", "thr_9")) == (THREAD,)


@pytest.mark.parametrize(
    ("command", "script"),
    [
        ("/bin/bash -lc 'git push'", "git push"),
        ("bash -c 'a && b'", "a && b"),
        ("bash -lc 'a' extra", "bash -lc 'a' extra"),
        ("python -c 'x'", "python -c 'x'"),
        ("bash -lc 'unfinished", "bash -lc 'unfinished"),
    ],
)
def test_only_a_plain_shell_is_taken_off_a_command(command: str, script: str) -> None:
    assert script_of(command) == script


def test_a_file_that_is_moved_is_judged_at_both_places() -> None:
    speaking = wire()
    moved = {"path": f"{ROOT}/a", "kind": {"type": "update", "move_path": "/etc/a"}, "diff": ""}
    speaking.heard_from_agent(started("item_1", "fileChange", changes=[moved]))
    patch = question(asks_patch(0), speaking).call.input["patchText"]
    assert patch.split("\n")[1:-1] == [f"*** Update File: {ROOT}/a", "*** Move to: /etc/a"]


@pytest.mark.parametrize(
    "changes", [None, [], [{"path": 1}], [{"path": "a\n*** Update File: b"}], [{"path": "a"}, {"kind": "add"}]]
)
def test_a_patch_whose_files_are_not_all_known_is_an_edit_of_anything(changes: Any) -> None:
    speaking = wire()
    if changes is not None:
        speaking.heard_from_agent(started("item_1", "fileChange", changes=changes))
    call = question(asks_patch(0), speaking).call
    assert call.said == {"permission": "edit", "patterns": ["*"], "always": []}
    assert call.metadata
    assert call.metadata["note"] == "the agent did not say which files it would change"


@pytest.mark.parametrize(
    ("params", "said"),
    [
        (
            {"networkApprovalContext": {"host": "example.com", "protocol": "https"}},
            {"permission": "network", "patterns": ["example.com"], "always": ["example.com"]},
        ),
        ({"command": None}, {"permission": "network", "patterns": ["*"], "always": []}),
        ({"kind": "writeStdin"}, {"permission": "writeStdin", "patterns": ["git push"], "always": ["git push"]}),
    ],
)
def test_what_is_no_plain_command_is_never_judged_as_one(params: dict[str, Any], said: dict[str, Any]) -> None:
    assert question(asks_command(0, **params)).call.said == said


def test_write_access_to_a_folder_is_more_than_an_edit() -> None:
    speaking = wire()
    speaking.heard_from_agent(started("item_1", "fileChange", changes=[{"path": "/srv/a"}]))
    call = question(asks_patch(0, grantRoot="/srv/"), speaking).call
    assert call.said == {"permission": "external_directory", "patterns": ["/srv/*"], "always": ["/srv/*"]}


@pytest.mark.parametrize("words", [None, [], ["rm", "*"], ["a", 1]])
def test_a_prefix_that_would_match_more_is_not_offered(words: Any) -> None:
    assert question(asks_command(0, proposedExecpolicyAmendment=words)).call.always is None


@pytest.mark.parametrize(
    ("decision", "expected"),
    [
        ("accept", ("once", "accept", None)),
        ("acceptForSession", ("once", "acceptForSession", "codex-session")),
        ("decline", ("reject", "decline", None)),
        ("cancel", ("reject", "cancel", None)),
        ({"acceptWithExecpolicyAmendment": {"execpolicy_amendment": ["git", "push"]}}, ("always", "accept", None)),
    ],
)
def test_what_the_client_decides_is_recorded_and_never_widened(
    decision: Any, expected: tuple[str, str, str | None]
) -> None:
    asked = question(asks_command(0, proposedExecpolicyAmendment=["git", "push"]))
    message = decided(0, decision)
    found = wire().answer_of(asked, message, line_of(message))
    assert isinstance(found, HostAnswer)
    assert (found.reply, json.loads(found.line)["result"]["decision"], found.prompt) == expected


def test_a_prefix_other_than_the_proposed_one_is_codexs_own_to_remember() -> None:
    asked = question(asks_command(0, proposedExecpolicyAmendment=["git", "push"]))
    message = decided(0, {"acceptWithExecpolicyAmendment": {"execpolicy_amendment": ["git"]}})
    assert wire().answer_of(asked, message, b"as it is") == HostAnswer("once", b"as it is", "codex-rule")


@pytest.mark.parametrize("result", [None, {}, {"decision": "yes"}, {"decision": {"applyNetworkPolicyAmendment": 1}}])
def test_a_decision_that_cannot_be_read_is_none(result: Any) -> None:
    assert wire().answer_of(question(asks_command(0)), {"id": 0, "result": result}, b"") is None


@pytest.mark.parametrize(
    ("interrupts", "row", "decision"),
    [
        (False, {"agent": "stop"}, "decline"),
        (True, {"agent": "stop"}, "cancel"),
        (True, {"agent": "continue"}, "decline"),
    ],
)
def test_a_rejection_interrupts_only_when_asked_for(interrupts: bool, row: Any, decision: str) -> None:
    verdict = CallVerdict("deny", "no", "r", row)
    answer = wire(interrupts=interrupts).answer(question(asks_command(0)), verdict)
    assert json.loads(answer) == decided(0, decision)


def test_nothing_but_a_plain_allow_accepts() -> None:
    asked = question(asks_command(0))
    verdicts = [
        CallVerdict("allow", "", "r"),
        CallVerdict("allow", "", "r", None, {"command": "x"}),
        CallVerdict("agent", "", "r"),
    ]
    assert [json.loads(wire().answer(asked, one))["result"]["decision"] for one in verdicts] == [
        "accept",
        "decline",
        "decline",
    ]


@pytest.mark.parametrize("params", [None, {}, {"threadId": "", "itemId": "i"}, {"threadId": "t", "itemId": 3}])
def test_a_request_that_cannot_be_read_is_declined(params: Any) -> None:
    message = {"id": 0, "method": "item/fileChange/requestApproval", "params": params}
    assert isinstance(wire().question_of(message), str)
    assert json.loads(wire().refuse(message)) == decided(0, "decline")


def test_requests_of_other_kinds_are_the_clients() -> None:
    other = {"id": 0, "method": "item/permissions/requestApproval", "params": {"threadId": THREAD, "itemId": "i"}}
    assert wire().question_of(other) is None
    assert wire().heard_from_agent(resolved(5)) == EndedQuestions(key="5")
