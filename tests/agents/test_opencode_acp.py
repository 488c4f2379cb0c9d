"""Journeys of the real `opencode acp`, in an editor behind the bridge."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.agents.editor import ASK, Editor, causes, verdicts
from tests.agents.openai_model import Model, Turn, bash, use
from tests.agents.rpc_client import LONG_S, Home, RpcClient, bridge
from tests.support.gateways import RunningGateway
from tests.support.processes import free_port
from tests.support.waiting import wait_until_async
from tests.workers.bridges.acp_talk import chosen

pytestmark = [pytest.mark.agents("opencode"), pytest.mark.timeout(240)]

Start = Callable[..., Editor]


@pytest.fixture
def start(gateway: RunningGateway, program: Path, tmp_path: Path) -> Iterator[Start]:
    """Start an editor with OpenCode behind `words`, by default the bridge's."""
    editors: list[Editor] = []

    def start(
        *turns: Turn, load: str | None = None, words: list[str] | None = None, port: int = 0, **rules: Any
    ) -> Editor:
        home, model = Home(tmp_path), Model(turns)
        (tmp_path / "rules.json").write_text(json.dumps({"permission": rules}))
        before = bridge("acp", "--rules", str(tmp_path / "rules.json")) if words is None else words
        environment = {**home.opencode(model.url), "PERMISSION_LEDGER_HOME": str(gateway.home)}
        agent = [str(program), "acp", "--hostname", "127.0.0.1", "--port", str(port or free_port())]
        client = RpcClient([*before, *agent], home, environment)
        editors.append(Editor(client, model, home, load=load))
        return editors[-1]

    yield start
    for editor in editors:
        editor.client.close()
        editor.model.close()


def touch(call_id: str = "call_a") -> Turn:
    return [bash("touch proof", call_id)]


async def test_a_rule_allows_by_the_exact_command_and_the_editor_hears_nothing_of_it(
    start: Start, gateway: RunningGateway
) -> None:
    editor = start(touch(), bash={"touch *": "allow"})
    assert editor.stop_reason() == "end_turn"
    assert ((editor.home.work / "proof").exists(), editor.client.said(ASK)) == (True, [])


async def test_an_edit_is_judged_by_its_file(start: Start) -> None:
    allowed = use("write", {"filePath": "docs/new.txt", "content": "x"}, "call_a")
    denied = use("write", {"filePath": "src/new.txt", "content": "x"}, "call_b")
    editor = start([allowed], [denied], edit={"*": "deny", "docs/*": "allow"})
    editor.stop_reason()
    work = editor.home.work
    assert ((work / "docs/new.txt").read_text(), (work / "src/new.txt").exists()) == ("x", False)


async def test_a_person_rejects_and_the_turn_ends_without_the_command(start: Start, gateway: RunningGateway) -> None:
    editor = start(touch())
    ann = gateway.person()
    shown = await ann.answer_next(editor.session, "reject", message="not here")
    assert (editor.stop_reason(), (editor.home.work / "proof").exists()) == ("end_turn", False)
    assert (shown["patterns"], shown["metadata"]["judged_on"]) == (["touch proof"], "rawInput")
    await ann.close()


async def test_the_editor_allows_once_and_is_asked_about_the_next(start: Start, gateway: RunningGateway) -> None:
    editor = start([bash("echo one", "call_a")], [bash("echo one", "call_b")])
    for count in (1, 2):
        asked = editor.client.received(ASK, count)[-1]
        editor.client.end.say(chosen(asked["id"], "once"))
    assert editor.stop_reason() == "end_turn"
    assert editor.model.results == {"call_a": "one\n", "call_b": "one\n"}
    ann = gateway.person()
    events = await ann.events(editor.session)
    assert [row["event"]["told"] for row in events if row["type"] == "replied"] == ["editor", "editor"]
    await ann.close()


async def test_an_always_answers_the_same_call_again_and_opencode_goes_on_asking(
    start: Start, gateway: RunningGateway
) -> None:
    editor = start([bash("echo one", "call_a")], [bash("echo two", "call_b")])
    ann = gateway.person()
    await ann.answer_next(editor.session, "always")
    assert editor.stop_reason() == "end_turn"
    assert editor.model.results == {"call_a": "one\n", "call_b": "two\n"}
    assert await verdicts(ann, editor.session) == ["ask", "allow"]
    await ann.close()


async def test_a_cancelled_turn_withdraws_what_is_pending(start: Start, gateway: RunningGateway) -> None:
    editor = start(touch())
    ann = gateway.person()
    await ann.waiting(editor.session)
    editor.cancel()
    assert editor.stop_reason() == "cancelled"
    await wait_until_async(lambda: causes(ann, editor.session), "the request to be cancelled")
    assert await causes(ann, editor.session) == ["asker_gave_up"]
    assert not (editor.home.work / "proof").exists()
    await ann.close()


async def test_parallel_calls_are_asked_one_by_one_and_each_is_answered_for_itself(
    start: Start, gateway: RunningGateway
) -> None:
    editor = start([bash("echo one", "call_a"), bash("echo two", "call_b")])
    ann = gateway.person()
    first = await ann.answer_next(editor.session, "once")
    second = await ann.answer_next(editor.session, "once")
    assert editor.stop_reason() == "end_turn"
    assert {first["patterns"][0], second["patterns"][0]} == {"echo one", "echo two"}
    assert editor.model.results == {"call_a": "one\n", "call_b": "two\n"}
    await ann.close()


async def test_a_session_that_is_loaded_again_attaches_to_what_is_pending_and_uses_its_answer_once(
    start: Start, gateway: RunningGateway
) -> None:
    first = start(touch())
    ann = gateway.person()
    [shown] = await ann.waiting(first.session)
    first.client.received(ASK)
    first.client.kill()
    again = start(touch("call_b"), touch("call_c"), load=first.session)
    again.client.received(ASK)
    assert [row["request_id"] for row in await ann.pending(first.session)] == [shown["request_id"]]
    await ann.reply(first.session, shown["request_id"], "once")
    another = await ann.answer_next(first.session, "reject")
    assert again.stop_reason() == "end_turn"
    assert (another["tool"]["call_id"], (again.home.work / "proof").exists()) == ("call_c", True)
    assert await verdicts(ann, first.session) == ["ask", "ask"], "the killed agent's request, and the third call's"
    await ann.close()


@pytest.mark.parametrize(("reply", "expected"), [("always", ["ask", "allow"]), ("once", ["ask", "ask"])])
async def test_what_was_answered_while_the_agent_was_gone_counts_for_another_call_only_if_it_is_a_grant(
    start: Start, gateway: RunningGateway, reply: str, expected: list[str]
) -> None:
    first = start(touch())
    ann = gateway.person()
    [shown] = await ann.waiting(first.session)
    first.client.received(ASK)
    first.client.kill()
    await ann.reply(first.session, shown["request_id"], reply)
    again = start(touch("call_b"), load=first.session)
    if reply == "once":
        await ann.answer_next(first.session, "once")
    assert again.stop_reason() == "end_turn"
    assert (await verdicts(ann, first.session), (again.home.work / "proof").exists()) == (expected, True)
    await ann.close()


async def test_a_sub_agent_s_request_which_acp_keeps_to_itself_is_answered_beside_it(
    start: Start, gateway: RunningGateway
) -> None:
    """OpenCode's ACP hangs on a request that it never forwards; the server that it opens too does forward it."""
    port = free_port()
    words = [sys.executable, "-m", "workers.cli", "bridge", "opencode", "--"]
    task = use("task", {"description": "sub", "prompt": "work", "subagent_type": "general"}, "call_t")
    editor = start([task], [bash("echo below", "call_a")], words=words, port=port)
    ann = gateway.person()

    async def below() -> list[dict[str, Any]]:
        return [row for row in await ann.pending_below(editor.session) if row["session"] != editor.session]

    [shown] = await wait_until_async(below, "the sub-agent to ask", LONG_S)
    assert (shown["lineage"], shown["agent"]) == ([editor.session], "general")
    await ann.reply(shown["session"], shown["request_id"], "once")
    assert editor.stop_reason() == "end_turn"
    assert (editor.model.results["call_a"], editor.client.said(ASK)) == ("below\n", [])
    await ann.close()


async def test_beside_its_server_too_the_editor_and_the_inbox_are_both_asked(
    start: Start, gateway: RunningGateway
) -> None:
    words = [sys.executable, "-m", "workers.cli", "bridge", "opencode", "--"]
    editor = start(touch(), [bash("echo two", "call_b")], words=words)
    ann = gateway.person()
    [asked] = editor.client.received(ASK)
    await ann.waiting(editor.session)
    editor.client.end.say(chosen(asked["id"], "once"))

    async def second() -> list[dict[str, Any]]:
        return [row for row in await ann.pending(editor.session) if row["patterns"] == ["echo two"]]

    [shown] = await wait_until_async(second, "the second call to be asked", LONG_S)
    await ann.reply(editor.session, shown["request_id"], "once")
    assert editor.stop_reason() == "end_turn"
    assert ((editor.home.work / "proof").exists(), editor.model.results["call_b"]) == (True, "two\n")
    replied = [row for row in await ann.events(editor.session) if row["type"] == "replied"]
    assert (replied[0]["event"]["told"], len(replied)) == ("opencode", 2)
    await ann.close()
