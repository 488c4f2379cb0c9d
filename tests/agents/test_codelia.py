"""Journeys of the real Codelia: its runtime behind the bridge, spoken to as its user interface does."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.agents.openai_model import Model, Turn, use
from tests.agents.rpc_client import Home, RpcClient, bridge
from tests.support.gateways import RunningGateway
from tests.support.waiting import wait_until, wait_until_async
from workers.transport.place import GatewayRefusalError

pytestmark = [pytest.mark.agents("codelia"), pytest.mark.timeout(180)]

ASK = "ui.confirm.request"
SESSION = "talk"


class Tui:
    """A user interface with one run under way."""

    def __init__(self, client: RpcClient, model: Model, home: Home, *, has_confirm: bool = True) -> None:
        self.client, self.model, self.home = client, model, home
        about = {"name": "codelia-tui", "version": "0.1.80"}
        capabilities = {"supports_confirm": has_confirm, "supports_prompt": has_confirm}
        said = {"protocol_version": "0", "client": about, "ui_capabilities": capabilities}
        client.call("initialize", said)
        self.run: str = client.call("run.start", {"input": {"type": "text", "text": "go"}})["run_id"]

    def status(self) -> str:
        """Return the final status of the run."""

        def ended() -> list[str]:
            found = [one["params"]["status"] for one in self.client.said("run.status")]
            return [one for one in found if one in ("completed", "error", "cancelled")]

        return wait_until(ended, f"the end of the run; {self.client.end.lines[-5:]}", 60)[0]

    def has(self, name: str) -> bool:
        return (self.home.work / name).exists()


Start = Callable[..., Tui]


@pytest.fixture
def start(gateway: RunningGateway, program: Path, tmp_path: Path) -> Iterator[Start]:
    """Start the runtime, with a model that says these turns."""
    interfaces: list[Tui] = []

    def start(
        *turns: Turn, options: tuple[str, ...] = (), wrapped: bool = True, has_confirm: bool = True, **rules: Any
    ) -> Tui:
        home, model = Home(tmp_path), Model(turns)
        (tmp_path / "rules.json").write_text(json.dumps({"version": 1, "permissions": rules}))
        words = bridge("codelia", "--session", SESSION, "--rules", str(tmp_path / "rules.json"), *options)
        environment = {**home.codelia(model.url), "PERMISSION_LEDGER_HOME": str(gateway.home)}
        client = RpcClient([*(words if wrapped else []), str(program)], home, environment)
        interfaces.append(Tui(client, model, home, has_confirm=has_confirm))
        return interfaces[-1]

    yield start
    for one in interfaces:
        one.client.close()
        one.model.close()


def shell(command: str, call_id: str = "call_a") -> dict[str, Any]:
    return use("shell", {"command": command}, call_id)


def answered(asked: dict[str, Any], **result: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": asked["id"], "result": result}


async def test_a_rule_allows_and_the_host_hears_nothing_of_it(start: Start, gateway: RunningGateway) -> None:
    tui = start([shell("touch proof")], allow=[{"tool": "bash", "command": "touch"}])
    assert (tui.status(), tui.has("proof"), tui.client.said(ASK)) == ("completed", True, [])
    ann = gateway.person()
    await wait_until_async(lambda: ann.outcomes(SESSION), "the ledger to know")
    assert [kind for kind, _ in await ann.outcomes(SESSION)] == ["session_opened", "asked", "claimed", "tool_finished"]
    await ann.close()


async def test_a_rejection_with_a_message_is_read_by_the_model_which_goes_on(
    start: Start, gateway: RunningGateway
) -> None:
    tui = start([shell("touch proof")], [shell("touch second", "call_b")])
    ann = gateway.person()
    shown = await ann.answer_next(SESSION, "reject", message="use the other folder")
    await ann.answer_next(SESSION, "once")
    assert (tui.status(), tui.has("proof"), tui.has("second")) == ("completed", False, True)
    assert (shown["permission"], shown["input"], shown["agent"]) == ("bash", {"command": "touch proof"}, "codelia")
    assert "use the other folder" in tui.model.results["call_a"]
    await ann.close()


async def test_a_rejection_without_a_word_ends_the_turn(start: Start, gateway: RunningGateway) -> None:
    tui = start([shell("touch proof")], [shell("touch second", "call_b")])
    ann = gateway.person()
    await ann.answer_next(SESSION, "reject")
    assert (tui.status(), tui.has("proof"), tui.has("second")) == ("completed", False, False)
    assert tui.model.results == {}, "the model was not called again"
    await ann.close()


async def test_an_always_answers_the_next_call_and_codelia_writes_no_rule_of_its_own(
    start: Start, gateway: RunningGateway
) -> None:
    tui = start([shell("touch proof")], [shell("touch proof", "call_b")])
    ann = gateway.person()
    await ann.answer_next(SESSION, "always")
    assert tui.status() == "completed"
    asked = [row["event"]["verdict"] for row in await ann.events(SESSION) if row["type"] == "asked"]
    assert (asked, (tui.home.work / ".codelia" / "config.json").exists()) == (["ask", "allow"], False)
    await ann.close()


async def test_what_is_shared_codelia_remembers_itself(start: Start, gateway: RunningGateway) -> None:
    tui = start([shell("touch proof")], [shell("touch second", "call_b")], options=("--share-grants",))
    ann = gateway.person()
    await ann.answer_next(SESSION, "always")
    assert (tui.status(), tui.has("second")) == ("completed", True)
    assert [row["type"] for row in await ann.events(SESSION)].count("asked") == 1, "the second was not asked about"
    kept = json.loads((tui.home.work / ".codelia" / "config.json").read_text())
    assert kept["permissions"]["allow"] == [{"tool": "shell", "command": "touch"}]
    await ann.close()


async def test_the_difference_that_a_file_would_make_is_shown(start: Start, gateway: RunningGateway) -> None:
    write = use("write", {"file_path": "new.txt", "content": "moon\n"}, "call_a")
    tui = start([write])
    ann = gateway.person()
    shown = await ann.answer_next(SESSION, "once")
    assert (tui.status(), (tui.home.work / "new.txt").read_text()) == ("completed", "moon\n")
    assert "+moon" in shown["metadata"]["diff"]
    await ann.close()


async def test_two_calls_of_one_turn_are_two_requests(start: Start, gateway: RunningGateway) -> None:
    tui = start([shell("touch one"), shell("touch two", "call_b")])
    ann = gateway.person()
    first = await ann.answer_next(SESSION, "reject", message="not this one")
    second = await ann.answer_next(SESSION, "once")
    tui.status()
    assert [one["input"]["command"] for one in (first, second)] == ["touch one", "touch two"], "asked one by one"
    assert (tui.has("one"), tui.has("two")) == (False, True)
    await ann.close()


async def test_a_cancelled_run_withdraws_what_is_pending(start: Start, gateway: RunningGateway) -> None:
    tui = start([shell("touch proof")])
    ann = gateway.person()
    await ann.waiting(SESSION)
    tui.client.call("run.cancel", {"run_id": tui.run})
    assert tui.status() == "cancelled"
    await wait_until_async(lambda: _causes(ann), "the request to be cancelled")
    assert (await _causes(ann), tui.has("proof")) == (["asker_gave_up"], False)
    await ann.close()


async def test_a_gateway_killed_and_started_again_while_somebody_is_asked_changes_nothing(
    start: Start, gateway: RunningGateway
) -> None:
    tui = start([shell("touch proof")])
    ann = gateway.person()
    await ann.waiting(SESSION)
    gateway.kill9()
    await asyncio.to_thread(gateway.start)
    await ann.answer_next(SESSION, "once")
    assert (tui.status(), tui.has("proof")) == ("completed", True)
    await ann.close()


async def test_of_two_people_who_answer_at_once_one_is_told_who_was_first(
    start: Start, gateway: RunningGateway
) -> None:
    tui = start([shell("touch proof")])
    ann, bob = gateway.person("ann"), gateway.person("bob")
    [shown] = await ann.waiting(SESSION)
    found = await asyncio.gather(
        ann.reply(SESSION, shown["request_id"], "once"),
        bob.reply(SESSION, shown["request_id"], "reject"),
        return_exceptions=True,
    )
    tui.status()
    [lost] = [one for one in found if isinstance(one, GatewayRefusalError)]
    [won] = [one for one in found if isinstance(one, dict)]
    assert (lost.code, tui.has("proof")) == ("ALREADY_ANSWERED", won["outcome"] == "allowed")
    for person in (ann, bob):
        await person.close()


async def test_an_agent_that_was_killed_with_its_bridge_and_started_again_attaches_to_what_is_pending(
    start: Start, gateway: RunningGateway
) -> None:
    first = start([shell("touch proof")])
    ann = gateway.person()
    [shown] = await ann.waiting(SESSION)
    await wait_until_async(gateway.is_waited_for, "the first bridge to say that it waits")
    first.client.kill()
    again = start([shell("touch proof")])
    await wait_until_async(gateway.is_waited_for, "the second bridge to wait")
    assert [row["request_id"] for row in await ann.pending(SESSION)] == [shown["request_id"]]
    await ann.reply(SESSION, shown["request_id"], "once")
    assert (again.status(), again.has("proof")) == ("completed", True)
    await ann.close()


async def test_a_bridge_that_dies_lets_nothing_run(start: Start, gateway: RunningGateway) -> None:
    tui = start([shell("touch proof")])
    ann = gateway.person()
    [shown] = await ann.waiting(SESSION)
    tui.client.kill(whole_group=False)
    await ann.reply(SESSION, shown["request_id"], "once")
    assert not tui.has("proof")
    await ann.close()


async def test_a_ledger_that_cannot_be_reached_never_allows(start: Start, gateway: RunningGateway) -> None:
    gateway.kill9()
    tui = start([shell("touch proof")], options=("--grace", "0"), allow=[{"tool": "bash"}])
    assert (tui.status(), tui.has("proof")) == ("completed", False)
    assert "ledger" in tui.model.results["call_a"]


async def test_a_host_that_can_ask_nobody_is_answered_by_the_ledger(start: Start, gateway: RunningGateway) -> None:
    tui = start([shell("touch proof")], options=("--headless",), has_confirm=False)
    ann = gateway.person()
    await ann.answer_next(SESSION, "once")
    assert (tui.status(), tui.has("proof"), tui.client.said(ASK)) == ("completed", True, [])
    await ann.close()


async def test_without_the_bridge_such_a_host_gets_a_no(start: Start) -> None:
    tui = start([shell("touch proof")], wrapped=False, has_confirm=False)
    assert (tui.status(), tui.has("proof")) == ("completed", False)


async def test_wrapped_or_not_the_host_hears_the_same_but_for_the_question(start: Start) -> None:
    plain = start([shell("touch proof")], wrapped=False)
    [asked] = plain.client.received(ASK)
    plain.client.end.say(answered(asked, ok=True))
    plain.status()
    wrapped = start([shell("touch proof")], allow=[{"tool": "bash", "command": "touch"}])
    wrapped.status()
    assert _essence(wrapped) == [one for one in _essence(plain) if one[0] != ASK]


def _essence(tui: Tui) -> list[tuple[str, str, str]]:
    found = []
    for one in tui.client.end.messages:
        params = one.get("params", {})
        event = params.get("event", {})
        found.append((one.get("method", "answer"), params.get("status", ""), event.get("type", "")))
    return found


async def _causes(person: Any) -> list[str]:
    return [row["event"]["cause"] for row in await person.events(SESSION) if row["type"] == "cancelled"]
