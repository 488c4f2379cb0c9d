"""The Codex bridge as a process, between a client and a server that the test plays, with people at a real gateway."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.ends import Between
from tests.support.gateways import Person, RunningGateway
from tests.support.waiting import wait_until_async
from tests.workers.bridges.codex_talk import THREAD, asks_command, asks_patch, decided, resolved, started
from tests.workers.bridges.recorded import conversation

Start = Callable[..., Between]

RULES = {"bash": {"*": "ask", "ls *": "allow", "rm *": "deny"}, "edit": {"*": "ask", "docs/*": "allow"}}


@pytest.fixture
def start(gateway: RunningGateway, tmp_path: Path) -> Iterator[Start]:
    started_here: list[Between] = []

    def start(*words: str) -> Between:
        path = tmp_path / "rules.json"
        path.write_text(json.dumps({"permission": RULES}))
        between = Between("codex", ["--rules", str(path), *words], gateway.environment)
        started_here.append(between)
        return between

    yield start
    for between in started_here:
        between.close()


async def test_a_sub_agent_s_session_hangs_below_that_of_the_thread_that_started_it(start: Start, ann: Person) -> None:
    between = start()
    item: dict[str, Any] = {"type": "collabAgentToolCall", "tool": "spawnAgent", "id": "call_s"}
    item |= {"senderThreadId": THREAD, "receiverThreadIds": ["thread_2"]}
    between.agent.say({"method": "item/completed", "params": {"threadId": THREAD, "item": item}})
    message = asks_command(0)
    message["params"]["threadId"] = "thread_2"
    between.agent.say(message)

    async def below() -> list[dict[str, Any]]:
        return await ann.pending_below(THREAD)

    [shown] = await wait_until_async(below, "the sub-agent to ask")
    assert (shown["session"], shown["lineage"]) == ("thread_2", [THREAD])
    await ann.reply("thread_2", shown["request_id"], "once")
    assert between.agent.answer_to(0) == decided(0, "accept")


async def types_of(person: Person) -> list[tuple[str, Any]]:
    """Return the replies and cancellations, in order."""
    rows = [row for row in await person.events(THREAD) if row["type"] in ("replied", "cancelled")]
    return [(row["type"], row["event"].get("reply") or row["event"].get("cause")) for row in rows]


async def until_log_says(person: Person, *expected: tuple[str, Any]) -> None:
    async def is_so() -> bool:
        return await types_of(person) == list(expected)

    await wait_until_async(is_so, f"the log to say {expected}, not {await types_of(person)}")


def change(between: Between, *paths: str) -> None:
    """The item whose changes the next patch is about."""
    changes = [{"path": path, "kind": {"type": "update", "move_path": None}, "diff": "-a\n+b"} for path in paths]
    between.agent.say(started("item_1", "fileChange", changes=changes))


def test_rules_decide_about_commands_and_patches(start: Start) -> None:
    between = start()
    between.agent.say({"method": "thread/started", "params": {"thread": {"id": THREAD, "cwd": "/home/user/project"}}})
    change(between, "/home/user/project/docs/a", "/home/user/project/docs/b")
    between.agent.say(asks_patch(0))
    between.agent.say(asks_command(1, "/bin/bash -lc 'ls src'"))
    between.agent.say(asks_command(2, "/bin/bash -lc 'ls && rm -rf src'"))
    assert [between.agent.answer_to(rpc_id) for rpc_id in (0, 1, 2)] == [
        decided(0, "accept"),
        decided(1, "accept"),
        decided(2, "decline"),
    ]
    assert [one["method"] for one in between.host.messages] == ["thread/started", "item/started"]


async def test_a_patch_is_shown_with_what_it_would_change(start: Start, ann: Person) -> None:
    between = start()
    between.agent.say({"method": "thread/started", "params": {"thread": {"id": THREAD, "cwd": "/home/user/project"}}})
    change(between, "/home/user/project/src/a")
    between.agent.say(asks_patch(0))
    shown = await ann.answer_next(THREAD, "once")
    assert between.agent.answer_to(0) == decided(0, "accept")
    assert (shown["tool_name"], shown["metadata"]["diff"]) == ("edit", "update /home/user/project/src/a\n-a\n+b")


async def test_parallel_requests_are_answered_here_and_there(start: Start, ann: Person) -> None:
    between = start()
    for rpc_id in (1, 0):
        between.agent.say(asks_command(rpc_id, f"/bin/bash -lc 'git push {rpc_id}'"))
    rows = {row["input"]["command"]: row["request_id"] for row in await ann.waiting(THREAD, 2)}
    between.host.received(2)
    between.host.say(decided(0, "accept"))
    assert between.agent.answer_to(0) == decided(0, "accept")
    await ann.reply(THREAD, rows["git push 1"], "once")
    assert between.agent.answer_to(1) == decided(1, "accept")
    await until_log_says(ann, ("replied", "once"), ("replied", "once"))


async def test_the_prefix_that_codex_would_remember_is_a_grant_of_the_ledger(start: Start, ann: Person) -> None:
    between = start()
    proposed = ["git", "push"]
    between.agent.say(asks_command(0, proposedExecpolicyAmendment=proposed))
    between.host.received()
    [shown] = await ann.waiting(THREAD)
    between.host.say(decided(0, {"acceptWithExecpolicyAmendment": {"execpolicy_amendment": proposed}}))
    assert between.agent.answer_to(0) == decided(0, "accept")
    between.agent.say(asks_command(1, "/bin/bash -lc 'git push origin main'"))
    assert between.agent.answer_to(1) == decided(1, "accept")
    assert (shown["always"], len(between.host.lines)) == (["git push *"], 1)
    await until_log_says(ann, ("replied", "session"))


async def test_what_codex_remembers_for_the_session_itself_is_recorded_once_and_says_so(
    start: Start, ann: Person
) -> None:
    between = start()
    between.agent.say(asks_command(0))
    between.host.received()
    between.host.say(decided(0, "acceptForSession"))
    assert between.agent.answer_to(0) == decided(0, "acceptForSession")
    await until_log_says(ann, ("replied", "once"))
    [prompt] = [row["event"]["told"] for row in await ann.events(THREAD) if row["type"] == "replied"]
    assert prompt == "codex-session"


async def test_a_request_that_the_server_drops_is_withdrawn(start: Start, ann: Person) -> None:
    between = start()
    between.agent.say(asks_command(0))
    between.host.received()
    between.agent.say(resolved(0))
    await until_log_says(ann, ("cancelled", "asker_gave_up"))
    assert between.host.received(2)[1] == resolved(0)
    assert between.agent.lines == []


@pytest.mark.parametrize(("words", "decision"), [((), "decline"), (("--interrupt",), "cancel")])
async def test_a_rejection_without_a_word_may_end_the_turn(
    start: Start, ann: Person, words: tuple[str, ...], decision: str
) -> None:
    between = start(*words)
    between.agent.say(asks_command(0))
    await ann.answer_next(THREAD, "reject")
    assert between.agent.answer_to(0) == decided(0, decision)


async def test_a_client_that_cancels_ends_the_turn_and_that_is_a_rejection(start: Start, ann: Person) -> None:
    between = start()
    between.agent.say(asks_command(0))
    between.host.received()
    between.host.say(decided(0, "cancel"))
    assert between.agent.answer_to(0) == decided(0, "cancel")
    await until_log_says(ann, ("replied", "reject"))


@pytest.mark.usefixtures("no_gateway")
def test_without_a_gateway_it_is_declined(start: Start, gateway: RunningGateway) -> None:
    between = start("--grace", "0")
    between.agent.say(asks_command(0, "/bin/bash -lc 'ls x'"))
    assert between.agent.answer_to(0) == decided(0, "decline")
    assert "nobody could be asked" in between.errors


def test_a_recorded_conversation_passes_but_for_what_is_asked(start: Start) -> None:
    between = start()
    messages = [message for origin, message in conversation("codex/parallel") if origin == "agent"]
    asked = [one for one in messages if "requestApproval" in one.get("method", "")]
    passing = [one for one in messages if one not in asked]
    for message in messages:
        between.agent.say(message)
    received = between.host.received(len(passing))
    assert [one for one in received if one not in asked] == passing
    assert len(asked) == 2
