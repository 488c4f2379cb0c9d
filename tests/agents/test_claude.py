"""Journeys of the real Claude Code behind the bridge, with people answering at the gateway."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.agents.anthropic_model import DONE, Model, Turn, bash, use
from tests.agents.claude_client import BRIDGE, Client, Room
from tests.support.gateways import RunningGateway
from tests.support.waiting import wait_until, wait_until_async
from workers.transport.place import GatewayRefusalError

pytestmark = [pytest.mark.agents("claude", older="claude-older"), pytest.mark.timeout(180)]

MakeRoom = Callable[..., Room]
Start = Callable[..., Client]


@pytest.fixture
def room(tmp_path: Path, program: Path) -> Iterator[MakeRoom]:
    models: list[Model] = []

    def make(*turns: Turn, **agents: Sequence[Turn]) -> Room:
        model = Model(turns, agents)
        models.append(model)
        return Room(tmp_path, program, model)

    yield make
    for model in models:
        model.close()


@pytest.fixture
def start(gateway: RunningGateway) -> Iterator[Start]:
    """Start a client behind the bridge, and say the first thing to it."""
    clients: list[Client] = []

    def started(room: Room, *options: str, words: Sequence[str] = (), bridged: bool = True) -> Client:
        wrapper = (*BRIDGE, *options) if bridged else ()
        client = room.start(*words, wrapper=wrapper, environment={"PERMISSION_LEDGER_HOME": str(gateway.home)})
        clients.append(client)
        client.say("do the work")
        return client

    yield started
    for client in clients:
        client.close()


def rules(folder: Path, **lists: list[str]) -> str:
    path = folder / "rules.json"
    path.write_text(json.dumps({"permissions": lists}))
    return str(path)


def make(path: Path) -> str:
    return f"touch {path}"


async def test_a_rule_allows_and_the_host_hears_nothing_of_it(
    room: MakeRoom, start: Start, gateway: RunningGateway, tmp_path: Path
) -> None:
    proof = tmp_path / "work" / "proof"
    place = room([bash(make(proof), "toolu_1")])
    client = start(place, "--rules", rules(tmp_path, allow=["Bash(touch *)"]))
    assert client.result()["is_error"] is False
    assert client.end() == 0
    assert (proof.exists(), client.requests(), place.model.results["toolu_1"][0]) == (True, [], False)
    ann = gateway.person()
    assert await _ran(ann, client.session) == [("toolu_1", True)]
    await ann.close()


async def test_a_person_rejects_and_the_model_reads_the_message(
    room: MakeRoom, start: Start, gateway: RunningGateway, tmp_path: Path
) -> None:
    proof = tmp_path / "work" / "proof"
    place = room([bash(make(proof), "toolu_1")])
    client = start(place)
    ann = gateway.person()
    shown = await ann.answer_next(client.session, "reject", message="use the other folder")
    assert (shown["tool_name"], shown["input"]["command"]) == ("Bash", make(proof))
    client.result()
    failed, text = place.model.results["toolu_1"]
    assert (failed, "use the other folder" in text, proof.exists()) == (True, True, False)
    await ann.close()


async def test_a_person_corrects_the_command_and_that_is_what_runs(
    room: MakeRoom, start: Start, gateway: RunningGateway, tmp_path: Path
) -> None:
    asked, corrected = tmp_path / "work" / "asked", tmp_path / "work" / "corrected"
    client = start(room([bash(make(asked), "toolu_1")]))
    ann = gateway.person()
    await ann.answer_next(client.session, "once", updated_input={"command": make(corrected), "description": "work"})
    client.result()
    assert (asked.exists(), corrected.exists()) == (False, True)
    client.end()
    assert await _ran(ann, client.session) == [("toolu_1", True)]
    await ann.close()


async def test_what_was_granted_for_the_session_is_not_asked_again(
    room: MakeRoom, start: Start, gateway: RunningGateway, tmp_path: Path
) -> None:
    proof = tmp_path / "work" / "proof"
    place = room([bash(make(proof), "toolu_1")], [bash(make(proof), "toolu_2")])
    client = start(place)
    ann = gateway.person()
    shown = await ann.answer_next(client.session, "session")
    client.result()
    asked = [row["event"] for row in await ann.events(client.session) if row["type"] == "asked"]
    assert [(one["request_id"], one["verdict"], "grants" in one) for one in asked] == [
        ("toolu_1", "ask", False),
        ("toolu_2", "allow", True),
    ]
    assert shown["always"] == [f"Bash({make(proof)})"], "what the client proposes to remember"
    await ann.close()


async def test_two_readers_at_once_are_two_requests(
    room: MakeRoom, start: Start, gateway: RunningGateway, tmp_path: Path
) -> None:
    for name in ("one", "two"):
        (tmp_path / name).write_text(name)
    reads = [use("Read", {"file_path": str(tmp_path / name)}, f"toolu_{name}") for name in ("one", "two")]
    place = room(reads)
    client = start(place)
    ann = gateway.person()
    await ann.waiting(client.session, 2)
    await ann.reply(client.session, "toolu_two", "once")
    await ann.reply(client.session, "toolu_one", "reject")
    client.result()
    assert {name: place.model.results[f"toolu_{name}"][0] for name in ("one", "two")} == {"one": True, "two": False}
    await ann.close()


async def test_a_sub_agents_request_says_whose_it_is(
    room: MakeRoom, start: Start, gateway: RunningGateway, tmp_path: Path
) -> None:
    task = {"description": "look", "prompt": "count the beans", "subagent_type": "general-purpose"}
    agents = {"count the beans": [[bash(make(tmp_path / "work" / "beans"), "toolu_2")], DONE]}
    place = room([use("Agent", task, "toolu_1")], **agents)
    client = start(place)
    ann = gateway.person()
    shown = await ann.answer_next(client.session, "once")
    client.result()
    assert (shown["agent"], shown["parent"]) == ("general-purpose", "claude-code")
    assert shown["metadata"]["parent_call_id"] == "toolu_1"
    await ann.close()


async def test_an_interrupt_withdraws_what_is_pending(
    room: MakeRoom, start: Start, gateway: RunningGateway, tmp_path: Path
) -> None:
    client = start(room([bash(make(tmp_path / "work" / "proof"), "toolu_1")]))
    ann = gateway.person()
    await ann.waiting(client.session)
    client.control("stop", subtype="interrupt")
    await wait_until_async(lambda: _cancelled(ann, client.session), "the request to be cancelled")
    client.result()
    assert await _cancelled(ann, client.session) == [("toolu_1", "asker_gave_up")]
    assert [one for one in client.messages if one["type"] == "control_cancel_request"] == []
    await ann.close()


async def test_a_gateway_killed_and_started_again_while_somebody_is_asked_changes_nothing(
    room: MakeRoom, start: Start, gateway: RunningGateway, tmp_path: Path
) -> None:
    proof = tmp_path / "work" / "proof"
    client = start(room([bash(make(proof), "toolu_1")]))
    ann = gateway.person()
    await ann.waiting(client.session)
    gateway.kill9()
    await asyncio.to_thread(gateway.start)
    await ann.answer_next(client.session, "once")
    client.result()
    assert proof.exists()
    await ann.close()


@pytest.mark.parametrize("on_unreachable", ["deny", "agent"])
async def test_a_ledger_that_cannot_be_reached_never_allows(
    room: MakeRoom, start: Start, gateway: RunningGateway, tmp_path: Path, on_unreachable: str
) -> None:
    proof = tmp_path / "work" / "proof"
    gateway.kill9()
    place = room([bash(make(proof), "toolu_1")])
    client = start(place, "--on-unreachable", on_unreachable, "--grace", "0")
    if on_unreachable == "agent":
        [request] = await wait_until_async(client.requests, "the question at the host", 30)
        client.answer(request["request_id"], {"behavior": "deny", "message": "the host says no"})
    client.result()
    failed, text = place.model.results["toolu_1"]
    expected = {"deny": "nobody could be asked", "agent": "the host says no"}[on_unreachable]
    assert (failed, expected in text, proof.exists()) == (True, True, False)


@pytest.mark.parametrize("requires", [False, True])
async def test_a_mode_in_which_the_client_asks_nobody_is_told_and_left_out_where_asking_is_required(
    room: MakeRoom, start: Start, gateway: RunningGateway, tmp_path: Path, *, requires: bool
) -> None:
    proof = tmp_path / "work" / "proof"
    place = room([use("Write", {"file_path": str(proof), "content": "x"}, "toolu_1")])
    (place.config / "settings.json").write_text(json.dumps({"permissions": {"defaultMode": "acceptEdits"}}))
    client = start(place, *(["--require-asking"] if requires else []))
    ann = gateway.person()
    if requires:
        await ann.answer_next(client.session, "reject")
    client.result()
    assert (proof.exists(), b"is in mode `acceptEdits`" in b"".join(client.errors)) == (not requires, not requires)
    await ann.close()


@pytest.mark.parametrize("asks", [False, True])
async def test_a_killed_hook_leaves_the_call_to_the_clients_own_rules_and_one_that_asks_holds(
    room: MakeRoom, start: Start, tmp_path: Path, *, asks: bool
) -> None:
    proof = tmp_path / "work" / "proof"
    place = room([bash(make(proof), "toolu_1")])
    killed = {"PreToolUse": [{"matcher": "*", "hooks": [{"type": "command", "command": "kill -9 $$"}]}]}
    rules_of_its_own = {"defaultMode": "acceptEdits", **({"ask": ["Bash"]} if asks else {})}
    (place.config / "settings.json").write_text(json.dumps({"hooks": killed, "permissions": rules_of_its_own}))
    client = start(place, bridged=False)
    if asks:
        [request] = await wait_until_async(client.requests, "the question at the host", 30)
        client.answer(request["request_id"], {"behavior": "deny", "message": "the host says no"})
    client.result()
    assert proof.exists() is not asks


async def test_of_two_people_who_answer_at_once_one_is_told_who_was_first(
    room: MakeRoom, start: Start, gateway: RunningGateway, tmp_path: Path
) -> None:
    proof = tmp_path / "work" / "proof"
    client = start(room([bash(make(proof), "toolu_1")]))
    ann, bob = gateway.person("ann"), gateway.person("bob")
    await ann.waiting(client.session)
    found = await asyncio.gather(
        ann.reply(client.session, "toolu_1", "once"),
        bob.reply(client.session, "toolu_1", "reject"),
        return_exceptions=True,
    )
    client.result()
    [lost] = [one for one in found if isinstance(one, GatewayRefusalError)]
    [won] = [one for one in found if isinstance(one, dict)]
    assert lost.code == "ALREADY_ANSWERED"
    assert proof.exists() is (won["outcome"] == "allowed")
    for person in (ann, bob):
        await person.close()


async def test_an_agent_that_was_killed_with_its_bridge_and_resumed_attaches_to_what_is_pending(
    room: MakeRoom, start: Start, gateway: RunningGateway, tmp_path: Path
) -> None:
    proof = tmp_path / "work" / "proof"
    place = room([bash(make(proof), "toolu_1")], [bash(make(proof), "toolu_2")])
    first = start(place)
    session = first.session
    ann = gateway.person()
    await ann.waiting(session)
    wait_until(gateway.is_waited_for, "the first asker to say that it waits", 30)
    # A client that was killed before it recorded its work has nothing to resume.
    wait_until(lambda: place.has_written(session, "toolu_1"), "the client to write down its call", 30)
    first.kill()
    first.wait()
    place.model.turns = ([bash(make(proof), "toolu_9")], [bash(make(proof), "toolu_9")], [bash(make(proof), "toolu_9")])
    again = start(place, words=("--resume", session))
    await wait_until_async(lambda: again.messages, "the resumed client to speak", 30)
    wait_until(gateway.is_waited_for, "the resumed asker to attach", 30)
    assert [row["request_id"] for row in await ann.pending(session)] == ["toolu_1"]
    await ann.reply(session, "toolu_1", "once")
    await wait_until_async(proof.exists, "the tool to run", 30)
    await ann.close()


async def test_a_bridge_that_dies_lets_nothing_run(
    room: MakeRoom, start: Start, gateway: RunningGateway, tmp_path: Path
) -> None:
    proof = tmp_path / "work" / "proof"
    place = room([bash(make(proof), "toolu_1")])
    client = start(place)
    ann = gateway.person()
    await ann.waiting(client.session)
    client.kill(whole_group=False)
    await wait_until_async(lambda: "toolu_1" in place.model.results, "the client to go on", 30)
    assert (place.model.results["toolu_1"][0], proof.exists()) == (True, False)
    await ann.close()


async def test_a_question_is_answered_with_what_a_person_chose(
    room: MakeRoom, start: Start, gateway: RunningGateway, tmp_path: Path
) -> None:
    options = [{"label": "Red", "description": "warm"}, {"label": "Blue", "description": "cold"}]
    asked = {"questions": [{"question": "Which colour?", "header": "Colour", "multiSelect": False, "options": options}]}
    place = room([use("AskUserQuestion", asked, "toolu_1")])
    client = start(place)
    ann = gateway.person()
    [shown] = await ann.waiting(client.session)
    assert (shown["metadata"]["kind"], shown["always"]) == ("question", [])
    await ann.reply(client.session, "toolu_1", "once", updated_input={**asked, "answers": {"Which colour?": "Blue"}})
    client.result()
    assert "Blue" in place.model.results["toolu_1"][1]
    await ann.close()


async def test_a_plan_is_sent_back_with_words_and_approved_as_a_person_changed_it(
    room: MakeRoom, start: Start, gateway: RunningGateway, tmp_path: Path
) -> None:
    proof = tmp_path / "work" / "proof"
    place = room()
    client = start(place, words=("--permission-mode", "plan"))
    client.result()
    # The client names a file to the model, and shows that file's contents as the plan.
    [file] = set(re.findall(r'[^\s"\\]+/plans/[a-z-]+\.md', place.model.conversation))
    plans = [
        [use(name, value, f"toolu_{name}_{text}")]
        for text in ("all", "less")
        for name, value in (("Write", {"file_path": file, "content": text}), ("ExitPlanMode", {}))
    ]
    place.model.turns = [DONE, *plans, [bash(make(proof), "toolu_2")]]
    client.say("make a plan")
    ann = gateway.person()
    first = await ann.answer_next(client.session, "reject", message="that is too much")
    second = await ann.answer_next(client.session, "once", updated_input={"plan": "even less"})
    third = await ann.answer_next(client.session, "once")
    await wait_until_async(proof.exists, "the tool to run", 30)
    assert [(row["input"].get("plan"), row["metadata"].get("kind")) for row in (first, second, third)] == [
        ("all", "plan"),
        ("less", "plan"),
        (None, None),
    ]
    sent_back, approved = (place.model.results[f"toolu_ExitPlanMode_{text}"] for text in ("all", "less"))
    assert (sent_back[0], "that is too much" in sent_back[1]) == (True, True)
    assert (approved[0], "even less" in approved[1]) == (False, True)
    await ann.close()


async def test_wrapped_or_not_the_client_says_the_same(room: MakeRoom, start: Start, tmp_path: Path) -> None:
    """Equal except for what changes with every run: ids, times, and the order of threads."""
    proof = tmp_path / "work" / "proof"
    place = room([bash(make(proof), "toolu_1")])
    plain = start(place, bridged=False)
    [request] = await wait_until_async(plain.requests, "the question at the host", 30)
    plain.answer(request["request_id"], {"behavior": "allow", "updatedInput": request["request"]["input"]})
    plain.result()
    plain.end()
    proof.unlink()
    wrapped = start(place, "--rules", rules(tmp_path, allow=["Bash(touch *)"]))
    wrapped.result()
    wrapped.end()
    assert _essence(wrapped) == [one for one in _essence(plain) if one[0] != "control_request"]


def _essence(client: Client) -> list[tuple[str, Any]]:
    found = []
    for one in client.messages:
        content = one.get("message", {}).get("content") if isinstance(one.get("message"), dict) else None
        found.append((one["type"], json.dumps([sorted(one), one.get("subtype"), content, one.get("result")])))
    return found


async def _cancelled(person: Any, session: str) -> list[tuple[str, str]]:
    events = await person.events(session)
    return [(row["event"]["request_id"], row["event"]["cause"]) for row in events if row["type"] == "cancelled"]


async def _ran(person: Any, session: str) -> list[tuple[str, bool]]:
    """Return the requests whose calls ran, and whether they ran as asked, or as a person edited them."""
    events = await person.events(session)
    return [
        (row["event"]["request_id"], row["event"].get("as_asked")) for row in events if row["type"] == "tool_finished"
    ]
