"""The ACP bridge as a process, between an editor and an agent that the test plays, with people at a real gateway."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ledger import Ledger
from tests.support.ends import Between, End
from tests.support.gateways import Person, RunningGateway
from tests.support.waiting import wait_until_async
from tests.workers.bridges.acp_talk import (
    SESSION,
    asks,
    cancelled,
    cancels,
    chosen,
    rejected,
    withdrawn,
)

Start = Callable[..., Between]


@pytest.fixture
def start(gateway: RunningGateway, tmp_path: Path) -> Iterator[Start]:
    started: list[Between] = []

    def start(*words: str, **rules: Any) -> Between:
        path = tmp_path / "rules.json"
        path.write_text(json.dumps({"permission": rules or {"bash": {"ls *": "allow", "rm *": "deny"}}}))
        between = Between("acp", ["--rules", str(path), *words], gateway.environment)
        started.append(between)
        return between

    yield start
    for between in started:
        between.close()


async def ended(person: Person) -> list[tuple[Any, ...]]:
    """Return how requests ended: the answer and its place, or the withdrawal and its cause."""
    found: list[tuple[Any, ...]] = []
    for row in await person.events(SESSION):
        if row["type"] == "replied":
            found.append((row["event"]["reply"], row["event"].get("told", row["actor"]["via"])))
        if row["type"] == "cancelled":
            found.append(("cancelled", row["event"]["cause"]))
    return found


def _has(end: End, count: int) -> bool:
    return len(end.lines) >= count


async def until_ended(person: Person, *expected: tuple[Any, ...]) -> None:
    async def is_so() -> bool:
        return await ended(person) == list(expected)

    await wait_until_async(is_so, f"the log to say {expected}, not {await ended(person)}")


async def test_rules_decide_and_the_editor_hears_nothing_of_it(start: Start) -> None:
    between = start()
    between.agent.say(asks(0, "ls src"))
    between.agent.say(asks(1, "rm -rf src"))
    assert between.agent.answer_to(0) == chosen(0, "proceed_once")
    denied = between.agent.answer_to(1)["result"]
    assert denied["outcome"] == {"outcome": "selected", "optionId": "cancel"}
    assert "rm" in denied["_meta"]["permission-ledger"]["message"]
    assert between.host.lines == []


async def test_an_agent_that_begins_in_a_mode_that_asks_nobody_is_told_of(start: Start) -> None:
    between = start()
    begun = {"jsonrpc": "2.0", "id": 1, "result": {"sessionId": SESSION, "modes": {"currentModeId": "auto"}}}
    between.agent.say(begun)
    assert between.host.received() == [begun]
    assert "is in mode `auto`: calls that this mode allows are neither asked about nor recorded" in between.errors


async def test_a_person_answers_in_the_inbox_and_the_editors_prompt_is_over(start: Start, ann: Person) -> None:
    between = start()
    between.agent.say(asks(0))
    assert between.host.received() == [asks(0)]
    shown = await ann.answer_next(SESSION, "once")
    assert between.agent.answer_to(0) == chosen(0, "proceed_once")
    assert between.host.received(2)[1] == withdrawn(0)
    assert (shown["tool_name"], shown["input"]) == ("bash", {"command": "git push"})
    assert shown["metadata"]["judged_on"] == "title"
    assert shown["metadata"]["hears_no_words"] is True
    between.host.say(chosen(0, "proceed_always"))
    between.agent.say(asks(1, "ls"))
    between.agent.answer_to(1)
    assert len(between.agent.lines) == 2, "a late answer of the editor reaches nobody"


async def test_a_rejection_comes_with_its_message(start: Start, ann: Person) -> None:
    between = start()
    between.agent.say(asks(0))
    await ann.answer_next(SESSION, "reject", message="not on a Friday")
    said = "The user rejected permission to use this specific tool call with the following feedback: not on a Friday"
    assert between.agent.answer_to(0) == rejected(0, said)
    assert "not on a Friday" in between.errors


async def test_the_editor_answers_first_and_that_is_recorded(start: Start, ann: Person) -> None:
    between = start()
    between.agent.say(asks(0))
    between.agent.say(asks(1, "git pull"))
    between.host.received(2)
    between.host.write(
        b' {"jsonrpc":"2.0", "id":0,"result":{"outcome":{"outcome":"selected","optionId":"proceed_once"}}}\n'
    )
    assert between.agent.answer_to(0) == chosen(0, "proceed_once")
    between.host.say(chosen(1, "cancel"))
    assert between.agent.answer_to(1) == chosen(1, "cancel")
    await until_ended(ann, ("once", "editor"), ("reject", "editor"))
    assert await ann.pending(SESSION) == []
    assert between.agent.lines[0].startswith(b' {"jsonrpc"'), "the editor's answer passes as it is"


async def test_what_the_editor_allows_for_longer_is_a_grant_of_the_ledger(start: Start, ann: Person) -> None:
    between = start()
    between.agent.say(asks(0))
    between.host.received()
    between.host.say(chosen(0, "proceed_always"))
    assert between.agent.answer_to(0) == chosen(0, "proceed_once"), "the agent goes on asking"
    between.agent.say(asks(1))
    assert between.agent.answer_to(1) == chosen(1, "proceed_once")
    assert len(between.host.lines) == 1
    await until_ended(ann, ("session", "editor"))


async def test_what_no_grant_can_say_is_allowed_once_however_long_the_editor_meant(start: Start, ann: Person) -> None:
    between = start()
    for rpc_id in (0, 1):
        between.agent.say(asks(rpc_id, "ask *", kind="other"))
        between.host.received(rpc_id + 1)
        between.host.say(chosen(rpc_id, "proceed_always"))
        assert between.agent.answer_to(rpc_id) == chosen(rpc_id, "proceed_once")
    await until_ended(ann, ("session", "editor"), ("session", "editor"))


async def test_with_a_token_that_may_not_bring_rules_the_editor_may_reject_and_not_allow(
    gateway: RunningGateway, ann: Person
) -> None:
    async with Ledger.connect(gateway.server.url) as ledger:
        token = (await ledger.tokens.create("bound", "agent")).text
    environment = {
        **gateway.environment,
        "PERMISSION_LEDGER_GATEWAY": gateway.address,
        "PERMISSION_LEDGER_TOKEN": token,
    }
    between = Between("acp", [], environment)
    try:
        between.agent.say(asks(0))
        between.host.received()
        between.host.say(chosen(0, "proceed_once"))
        await wait_until_async(lambda: "but not in the ledger" in between.errors, "the bridge to say so")
        await ann.answer_next(SESSION, "once")
        assert between.agent.answer_to(0) == chosen(0, "proceed_once")
        between.agent.say(asks(1))
        await ann.waiting(SESSION)
        between.host.received(3)
        between.host.say(chosen(1, "cancel"))
        assert between.agent.answer_to(1) == chosen(1, "cancel")
        await until_ended(ann, ("once", "gateway"), ("cancelled", "withdrawn"))
    finally:
        between.close()


async def test_of_two_answers_at_once_the_ledgers_first_counts(start: Start, ann: Person) -> None:
    between = start()
    between.agent.say(asks(0))
    between.host.received()
    [shown] = await ann.waiting(SESSION)
    answering = asyncio.ensure_future(ann.reply(SESSION, shown["request_id"], "reject", message="no"))
    between.host.say(chosen(0, "proceed_once"))
    [inbox] = await asyncio.gather(answering, return_exceptions=True)
    given = between.agent.answer_to(0)
    inbox_won = not isinstance(inbox, BaseException)
    assert given["result"]["outcome"] == {"outcome": "selected", "optionId": "cancel" if inbox_won else "proceed_once"}
    assert await ended(ann) == [("reject", "gateway") if inbox_won else ("once", "editor")]


async def test_a_call_that_leaves_the_project_is_allowed_as_a_whole_by_one_answer(start: Start, ann: Person) -> None:
    between = start(edit="ask", external_directory="ask")
    between.host.say(
        {"jsonrpc": "2.0", "id": 7, "method": "session/load", "params": {"sessionId": SESSION, "cwd": "/a"}}
    )
    between.agent.received()
    diff = {"type": "diff", "path": "/b/new.txt", "oldText": None, "newText": "x"}
    between.agent.say(asks(0, "Writing", kind="edit", content=[diff]))
    between.host.received()
    between.host.say(chosen(0, "proceed_once"))
    assert between.agent.answer_to(0) == chosen(0, "proceed_once")
    asked = [row["event"]["permission"] for row in await ann.events(SESSION) if row["type"] == "asked"]
    assert asked == ["external_directory", "edit"]
    await until_ended(ann, ("once", "editor"), ("once", "editor"))


async def test_a_turn_that_the_editor_cancels_withdraws_what_is_pending(start: Start, ann: Person) -> None:
    between = start()
    between.agent.say(asks(0))
    between.host.received()
    between.host.say(cancels())
    between.host.say(cancelled(0))
    assert between.agent.answer_to(0) == cancelled(0)
    await until_ended(ann, ("cancelled", "asker_gave_up"))
    between.agent.say(asks(1, "ls"))
    between.agent.answer_to(1)
    assert between.agent.messages[0] == cancels(), "the notification itself passes"
    assert len(between.agent.lines) == 3


async def test_a_prompt_that_the_editor_cancels_is_withdrawn(start: Start, ann: Person) -> None:
    between = start()
    between.agent.say(asks(0))
    between.host.received()
    between.host.say(cancelled(0))
    assert between.agent.answer_to(0) == cancelled(0)
    await until_ended(ann, ("cancelled", "asker_gave_up"))


@pytest.mark.parametrize(
    "broken",
    [{"error": {"code": -32601, "message": "no such method"}}, {"result": {"outcome": {"outcome": "selected"}}}],
)
async def test_an_editor_that_cannot_ask_leaves_it_to_the_ledger(start: Start, ann: Person, broken: Any) -> None:
    between = start()
    between.agent.say(asks(0))
    between.host.received()
    between.host.say({"jsonrpc": "2.0", "id": 0, **broken})
    await ann.answer_next(SESSION, "once")
    assert between.agent.answer_to(0) == chosen(0, "proceed_once")
    assert "the client asked nobody; answer in the inbox" in between.errors


async def test_a_corrected_call_cannot_be_handed_over_and_does_not_run(start: Start, ann: Person) -> None:
    between = start()
    between.agent.say(asks(0))
    await ann.answer_next(SESSION, "once", updated_input={"command": "git push --dry-run"})
    assert between.agent.answer_to(0)["result"]["outcome"] == {"outcome": "selected", "optionId": "cancel"}


async def test_without_an_option_of_the_right_kind_a_request_is_cancelled_and_never_widened(
    start: Start, ann: Person
) -> None:
    between = start()
    between.agent.say(asks(0, "ls", options=[("always", "allow_always"), ("no", "reject_once")]))
    between.agent.say(asks(1, "rm x", options=[("always", "allow_always"), ("never", "reject_always")]))
    assert between.agent.answer_to(0) == cancelled(0)
    assert between.agent.answer_to(1)["result"]["outcome"] == {"outcome": "cancelled"}


async def test_parallel_requests_get_their_own_answers(start: Start, ann: Person) -> None:
    between = start()
    for rpc_id in ("a", "b", 2):
        between.agent.say(asks(rpc_id, f"git push {rpc_id}"))
    rows = {row["input"]["command"]: row["request_id"] for row in await ann.waiting(SESSION, 3)}
    await ann.reply(SESSION, rows["git push b"], "once")
    assert between.agent.answer_to("b") == chosen("b", "proceed_once")
    between.host.received(3)
    between.host.say(chosen(2, "proceed_once"))
    assert between.agent.answer_to(2) == chosen(2, "proceed_once")
    await ann.reply(SESSION, rows["git push a"], "reject")
    assert between.agent.answer_to("a")["result"]["outcome"]["optionId"] == "cancel"


async def test_a_rejection_ends_what_else_the_session_asks_as_in_opencode(start: Start, ann: Person) -> None:
    between = start()
    between.agent.say(asks(0))
    between.agent.say(asks(1, "git pull"))
    between.host.received(2)
    between.host.say(chosen(0, "cancel"))
    assert between.agent.answer_to(0) == chosen(0, "cancel")
    assert between.agent.answer_to(1)["result"]["outcome"]["optionId"] == "cancel"
    assert between.host.received(3)[2] == withdrawn(1)


async def test_two_requests_under_one_id_are_both_refused(start: Start, ann: Person) -> None:
    between = start()
    between.agent.say(asks(0))
    await ann.waiting(SESSION)
    between.agent.say(asks(0, "ls"))
    assert between.agent.answer_to(0) == cancelled(0)
    await until_ended(ann, ("cancelled", "withdrawn"))


async def test_an_agent_that_ends_withdraws_what_it_asked(start: Start, ann: Person) -> None:
    between = start()
    between.agent.say(asks(0))
    await ann.waiting(SESSION)
    between.end_agent()
    assert between.wait() == 0
    await until_ended(ann, ("cancelled", "asker_died"))


async def test_a_resumed_agent_attaches_to_what_its_killed_bridge_left_pending(
    start: Start, ann: Person, gateway: RunningGateway
) -> None:
    first = start()
    first.agent.say(asks(0))
    await ann.waiting(SESSION)
    await wait_until_async(gateway.is_waited_for, "the first to wait")
    first.kill_bridge()
    second = start()
    second.agent.say(asks(0, toolCallId="call_again"))
    second.host.received()
    await ann.answer_next(SESSION, "once")
    assert second.agent.answer_to(0) == chosen(0, "proceed_once")
    assert [row["type"] for row in await ann.events(SESSION)].count("asked") == 1
    second.agent.say(asks(1, toolCallId="call_again"))
    second.host.received(3)
    assert len(await ann.waiting(SESSION)) == 1, "that answer was for one call"


@pytest.mark.slow
@pytest.mark.usefixtures("killable_gateway")
async def test_a_gateway_killed_and_started_again_while_somebody_is_asked_changes_nothing(
    start: Start, ann: Person, gateway: RunningGateway
) -> None:
    between = start()
    between.agent.say(asks(0))
    await ann.waiting(SESSION)
    gateway.kill9()
    await asyncio.to_thread(gateway.start)
    await ann.answer_next(SESSION, "once")
    assert between.agent.answer_to(0) == chosen(0, "proceed_once")


@pytest.mark.usefixtures("no_gateway")
async def test_without_a_gateway_it_is_denied(start: Start, gateway: RunningGateway) -> None:
    between = start("--grace", "0")
    between.agent.say(asks(0, "ls"))
    assert between.agent.answer_to(0)["result"]["outcome"]["optionId"] == "cancel"
    assert "nobody could be asked" in between.errors
    assert between.host.lines == []


@pytest.mark.usefixtures("no_gateway")
async def test_without_a_gateway_the_editor_alone_may_be_asked(start: Start, gateway: RunningGateway) -> None:
    between = start("--grace", "0", "--on-unreachable", "agent")
    between.agent.say(asks(0, "ls"))
    assert between.host.received() == [asks(0, "ls")]
    between.host.say(chosen(0, "proceed_once"))
    assert between.agent.answer_to(0) == chosen(0, "proceed_once")


@pytest.mark.usefixtures("killable_gateway")
async def test_a_gateway_that_goes_for_good_while_somebody_is_asked_is_a_denial(
    start: Start, ann: Person, gateway: RunningGateway
) -> None:
    between = start("--grace", "0.2")
    between.agent.say(asks(0))
    await ann.waiting(SESSION)
    gateway.kill9()
    assert between.agent.answer_to(0)["result"]["outcome"]["optionId"] == "cancel"
    assert between.host.received(2)[1] == withdrawn(0)


async def test_everything_else_passes_byte_for_byte_in_both_directions(start: Start) -> None:
    between = start()
    said = [
        b'{"jsonrpc":"2.0", "method":"session/update","params":{"sessionId":"s", "n":1e2, "u":"\\u00e4\xc3\xa4"}}\r\n',
        b'  {"id":0,"jsonrpc":"2.0","method":"fs/read_text_file","params":{"path":"/x"}}\n',
        b'{"id":1,"result":{"sessionId":"s"}}\n',
        b"\n",
        b'{"method":"x","params":{"text":"' + b"a" * 300_000 + b'"}}\n',
    ]
    for end, other in ((between.agent, between.host), (between.host, between.agent)):
        end.write(b"".join(said))
        await wait_until_async(partial(_has, other, len(said)), "all lines", 20)
        assert other.lines == said


async def test_what_is_no_message_reaches_nobody(start: Start) -> None:
    between = start()
    between.agent.write(b"warning: something\n[1]\n\xff\xfe\n")
    between.agent.say({"jsonrpc": "2.0", "id": 0, "method": "session/request_permission", "params": {"sessionId": "s"}})
    assert between.agent.answer_to(0) == cancelled(0)
    between.host.write(b"} no json\n")
    between.host.say({"jsonrpc": "2.0", "method": "last"})
    assert between.agent.received(2)[1] == {"jsonrpc": "2.0", "method": "last"}
    assert between.host.lines == []
    assert between.errors.count("is dropped, it is not a JSON object") == 4


async def test_an_id_that_is_used_again_for_something_else_is_the_editors(start: Start) -> None:
    between = start()
    between.agent.say(asks(0, "ls"))
    between.agent.answer_to(0)
    between.agent.say({"jsonrpc": "2.0", "id": 0, "method": "fs/read_text_file", "params": {"path": "/x"}})
    between.host.received()
    answer = {"jsonrpc": "2.0", "id": 0, "result": {"content": "x"}}
    between.host.say(answer)
    assert between.agent.received(2)[1] == answer


async def test_the_agents_exit_code_is_the_bridges(start: Start) -> None:
    between = start()
    between.end_agent(7)
    assert between.wait() == 7
