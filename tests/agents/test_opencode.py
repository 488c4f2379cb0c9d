"""Journeys of the real OpenCode beside the bridge, with people answering at the gateway."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.agents.openai_model import Model, Turn, bash, use
from tests.agents.opencode_client import LONG_S, BridgeProcess, OpenCodeClient
from tests.support.gateways import Person, RunningGateway
from tests.support.processes import free_port
from tests.support.waiting import wait_until_async

pytestmark = [pytest.mark.agents("opencode"), pytest.mark.timeout(240)]

REFUSED = "The user rejected permission to use this specific tool call"

Start = Callable[..., OpenCodeClient]
Bridges = Callable[..., BridgeProcess]


@pytest.fixture
async def start(tmp_path: Path, program: Path) -> AsyncIterator[Start]:
    """Start OpenCode, with a model that says these turns."""
    clients: list[OpenCodeClient] = []

    def started(*turns: Turn, **more: Any) -> OpenCodeClient:
        client = OpenCodeClient(tmp_path, program, Model(turns), **more)
        clients.append(client)
        return client

    yield started
    for client in clients:
        await client.close()
        client.model.close()


@pytest.fixture
async def bridges(gateway: RunningGateway, tmp_path: Path) -> AsyncIterator[Bridges]:
    """Start a bridge beside OpenCode."""
    running: list[BridgeProcess] = []

    def started(client: OpenCodeClient, *words: str) -> BridgeProcess:
        running.append(BridgeProcess(gateway, tmp_path, "--url", client.url, *words))
        return running[-1]

    yield started
    for bridge in running:
        bridge.kill()


async def ended(person: Person, session: str, request_id: str) -> dict[str, Any]:
    row = await wait_until_async(lambda: person.outcome(session, request_id), f"{request_id} to end", LONG_S)
    assert row is not None
    return row


async def test_rules_allow_one_call_and_deny_another_with_a_reason_for_the_model(
    start: Start, bridges: Bridges, tmp_path: Path
) -> None:
    rules = tmp_path / "rules.json"
    rules.write_text(json.dumps({"permission": {"bash": {"*": "ask", "echo *": "allow", "touch *": "deny"}}}))
    client = start([bash("echo hello", "call_a")], [bash("touch proof", "call_b")])
    client.start()
    bridges(client, "--rules", str(rules))
    session = await client.begin()
    allowed, denied = await client.tool(session, "call_a"), await client.tool(session, "call_b")
    assert (allowed["status"], allowed["output"]) == ("completed", "hello\n")
    assert denied["error"].startswith(f"{REFUSED} with the following feedback: The user has specified a rule")
    assert not (client.project / "proof").exists()
    await wait_until_async(lambda: "call_b" in client.model.results, "the model to be told")


async def test_a_person_allows_once_and_then_rejects_with_a_message(
    start: Start, bridges: Bridges, ann: Person
) -> None:
    client = start([bash("echo one", "call_a")], [bash("echo one", "call_b")])
    client.start()
    bridges(client)
    session = await client.begin()
    shown = await ann.answer_next(session, "once")
    assert (await client.tool(session, "call_a"))["output"] == "one\n"
    await ann.answer_next(session, "reject", message="not twice")
    assert (await client.tool(session, "call_b"))["error"] == f"{REFUSED} with the following feedback: not twice"
    assert (shown["patterns"], shown["always"], shown["tool"]["call_id"]) == (["echo one"], ["echo *"], "call_a")


async def test_an_always_covers_the_next_call_of_another_session_and_of_opencode_started_again(
    start: Start, bridges: Bridges, ann: Person
) -> None:
    client = start([bash("echo one", "call_a")], [], [bash("echo two", "call_b")])
    client.start()
    bridges(client)
    first = await client.begin()
    await ann.answer_next(first, "always")
    assert (await client.tool(first, "call_a"))["output"] == "one\n"
    second = await client.begin()
    assert (await client.tool(second, "call_b"))["output"] == "two\n"
    client.kill()
    client.start()
    client.model.say_next([bash("echo three", "call_c")])
    third = await client.begin()
    assert (await client.tool(third, "call_c"))["output"] == "three\n"


async def test_parallel_calls_are_rejected_together(start: Start, bridges: Bridges, ann: Person) -> None:
    client = start([bash("echo one", "call_a"), bash("echo two", "call_b")])
    client.start()
    bridges(client)
    session = await client.begin()
    first, second = await ann.waiting(session, 2)
    await ann.reply(session, first["request_id"], "reject", message="neither")
    told = (await client.tool(session, first["tool"]["call_id"]))["error"]
    besides = (await client.tool(session, second["tool"]["call_id"]))["error"]
    assert (told, besides) == (f"{REFUSED} with the following feedback: neither", f"{REFUSED}.")
    assert (await ended(ann, session, second["request_id"]))["outcome"] == "rejected"
    assert await client.pending() == []


async def test_a_sub_agent_asks_below_its_parent(start: Start, bridges: Bridges, ann: Person) -> None:
    task = use("task", {"description": "sub", "prompt": "work", "subagent_type": "general"}, "call_t")
    client = start([task], [bash("echo below", "call_a")])
    client.start()
    bridges(client)
    session = await client.begin()

    async def below() -> dict[str, Any] | None:
        rows = [row for row in await ann.pending_below(session) if row["session"] != session]
        return rows[0] if rows else None

    shown = await wait_until_async(below, "the sub-agent to ask", LONG_S)
    assert shown is not None
    assert (shown["lineage"], shown["agent"]) == ([session], "general")
    await ann.reply(shown["session"], shown["request_id"], "once")
    assert (await client.tool(shown["session"], "call_a"))["output"] == "below\n"
    assert (await client.tool(session, "call_t"))["status"] == "completed"


async def test_an_aborted_call_is_withdrawn_although_opencode_still_lists_it(
    start: Start, bridges: Bridges, ann: Person
) -> None:
    client = start([bash("echo one", "call_a")], [bash("echo two", "call_b")])
    client.start()
    bridge = bridges(client)
    session = await client.begin()
    [shown] = await ann.waiting(session)
    await client.abort(session)
    row = await ended(ann, session, shown["request_id"])
    assert (row["outcome"], await client.pending()) == ("cancelled", [shown["request_id"]])
    bridge.kill()
    bridges(client)
    await client.say(session)
    again = await ann.answer_next(session, "once")
    assert (again["tool"]["call_id"], (await client.tool(session, "call_b"))["output"]) == ("call_b", "two\n")


async def test_a_bridge_killed_while_a_person_thinks_is_followed_by_another(
    start: Start, bridges: Bridges, ann: Person
) -> None:
    client = start([bash("echo one", "call_a")])
    client.start()
    first = bridges(client)
    session = await client.begin()
    [shown] = await ann.waiting(session)
    first.kill()
    await ann.reply(session, shown["request_id"], "once")
    bridges(client)
    assert (await client.tool(session, "call_a"))["output"] == "one\n"


async def test_a_gateway_killed_and_started_again_changes_nothing(
    start: Start, bridges: Bridges, ann: Person, gateway: RunningGateway
) -> None:
    client = start([bash("echo one", "call_a")])
    client.start()
    bridges(client)
    session = await client.begin()
    await ann.waiting(session)
    gateway.kill9()
    await asyncio.to_thread(gateway.start)
    await ann.answer_next(session, "once")
    assert (await client.tool(session, "call_a"))["output"] == "one\n"


async def test_without_a_gateway_the_call_is_refused_and_the_model_told_why(
    start: Start, bridges: Bridges, gateway: RunningGateway
) -> None:
    client = start([bash("touch proof", "call_a")])
    client.start()
    gateway.kill9()
    bridges(client, "--grace", "0.2")
    session = await client.begin()
    assert "nobody could be asked" in (await client.tool(session, "call_a"))["error"]
    assert not (client.project / "proof").exists()


async def test_two_people_at_once_one_in_opencode_and_the_first_counts(
    start: Start, bridges: Bridges, ann: Person
) -> None:
    client = start([bash("echo one", "call_a")])
    client.start()
    bridges(client)
    session = await client.begin()
    [shown] = await ann.waiting(session)
    assert await client.reply(shown["request_id"], "once") == 200
    row = await ended(ann, session, shown["request_id"])
    assert ((await client.tool(session, "call_a"))["output"], row["outcome"]) == ("one\n", "allowed")
    assert [event["event"]["told"] for event in await ann.events(session) if event["type"] == "replied"] == ["opencode"]


COLOUR = {
    "question": "Which colour?",
    "header": "Colour",
    "options": [{"label": "Red", "description": "warm"}, {"label": "Blue", "description": "cold"}],
}


def question(call_id: str) -> dict[str, Any]:
    return use("question", {"questions": [COLOUR]}, call_id)


async def test_a_question_is_answered_with_what_a_person_chose_and_the_next_is_dismissed(
    start: Start, bridges: Bridges, ann: Person
) -> None:
    client = start([question("call_a")], [question("call_b")], [question("call_c")])
    client.start()
    bridges(client)
    session = await client.begin()
    [shown] = await ann.waiting(session)
    chosen = {**shown["input"], "answers": {"Which colour?": "Blue"}}
    await ann.reply(session, shown["request_id"], "once", updated_input=chosen)
    assert '"Which colour?"="Blue"' in (await client.tool(session, "call_a"))["output"]
    assert (shown["metadata"]["kind"], shown["patterns"], shown["input"]) == (
        "question",
        ["Which colour?"],
        {"questions": [COLOUR]},
    )
    await ann.answer_next(session, "reject", message="take green")
    assert '"Which colour?"="Not answered: take green"' in (await client.tool(session, "call_b"))["output"]
    await ann.answer_next(session, "reject")
    assert (await client.tool(session, "call_c"))["error"] == "The user dismissed this question"
    assert "Blue" in client.model.results["call_a"]


async def test_a_question_answered_in_opencode_is_recorded_and_one_of_a_stopped_agent_withdrawn(
    start: Start, bridges: Bridges, ann: Person
) -> None:
    client = start([question("call_a")], [question("call_b")])
    client.start()
    bridge = bridges(client)
    session = await client.begin()
    [shown] = await ann.waiting(session)
    taken = await client.http.post(f"/question/{shown['request_id']}/reply", json={"answers": [["Green"]]})
    assert taken.status_code == 200
    row = await ended(ann, session, shown["request_id"])
    assert (row["outcome"], row["updated_input"]["answers"]) == ("allowed", {"Which colour?": "Green"})
    [ghost] = [one for one in await ann.waiting(session) if one["request_id"] != shown["request_id"]]
    await client.abort(session)
    assert (await ended(ann, session, ghost["request_id"]))["outcome"] == "cancelled"
    bridge.kill()
    bridges(client)
    client.model.say_next([question("call_c")])
    await client.say(session)
    again = await ann.answer_next(session, "reject", message="later")
    assert again["tool"]["call_id"] == "call_c"
    assert "Not answered: later" in (await client.tool(session, "call_c"))["output"]
    listed = [one["id"] for one in (await client.http.get("/question")).json()]
    assert listed == [ghost["request_id"]], "the ghost stays in OpenCode's own list, and nobody answers it"


async def test_opencode_killed_while_it_asks_has_its_request_cancelled_and_asks_anew(
    start: Start, bridges: Bridges, ann: Person
) -> None:
    client = start([bash("echo one", "call_a")])
    client.start()
    bridges(client)
    session = await client.begin()
    [lost] = await ann.waiting(session)
    client.kill()
    client.start()
    assert (await ended(ann, session, lost["request_id"]))["outcome"] == "cancelled"
    client.model.say_next([bash("echo one", "call_b")])
    await client.say(session)
    await ann.answer_next(session, "once")
    assert (await client.tool(session, "call_b"))["output"] == "one\n"


async def test_started_by_the_bridge_and_through_its_proxy_all_goes_as_without(
    start: Start, ann: Person, gateway: RunningGateway, tmp_path: Path
) -> None:
    proxy = free_port()
    words = ("-m", "workers.cli", "bridge", "opencode", "--listen", f"127.0.0.1:{proxy}", "--")
    client = start([bash("echo one", "call_a")], wrapper=(sys.executable, *words))
    client.start(gateway.environment | client.environment())
    query = {"directory": str(client.project)}
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{proxy}", params=query, trust_env=False) as through:
        direct, passed = await client.http.get("/config"), await through.get("/config")
        session = (await through.post("/session", json={"title": "through"})).json()["id"]
    assert passed.content == direct.content
    await client.say(session)
    await ann.answer_next(session, "once")
    assert (await client.tool(session, "call_a"))["output"] == "one\n"
    client.end()
    with pytest.raises(httpx.ConnectError):
        await client.http.get("/path")
