"""Journeys of the real Gemini CLI: behind the ACP bridge, and with the hook."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.agents.editor import ASK, Editor, causes
from tests.agents.rpc_client import LONG_S, Home, RpcClient, bridge, hook_command, hook_settings, start_program
from tests.agents.scripted_model import Call, ScriptedModel, Turn
from tests.support.gateways import RunningGateway
from tests.support.waiting import wait_until_async
from tests.workers.bridges.acp_talk import chosen
from workers.transport.place import GatewayRefusalError

pytestmark = [pytest.mark.agents("gemini"), pytest.mark.timeout(180)]

Start = Callable[..., Editor]


@pytest.fixture
def start(gateway: RunningGateway, program: Path, tmp_path: Path) -> Iterator[Start]:
    editors: list[Editor] = []

    def start(*turns: Turn, options: tuple[str, ...] = (), wrapped: bool = True, **rules: Any) -> Editor:
        home, model = Home(tmp_path), ScriptedModel(*turns)
        (tmp_path / "rules.json").write_text(json.dumps({"permission": rules}))
        words = bridge("acp", "--rules", str(tmp_path / "rules.json"), *options) if wrapped else []
        environment = {**home.gemini(model.url), "PERMISSION_LEDGER_HOME": str(gateway.home)}
        client = RpcClient([*words, str(program), "--acp"], home, environment)
        editors.append(Editor(client, model, home))
        return editors[-1]

    yield start
    for editor in editors:
        editor.client.close()
        editor.model.close()


def shell(command: str) -> Turn:
    return [Call("run_shell_command", {"command": command, "description": "work"}, "call_1")]


async def test_a_rule_allows_and_the_editor_hears_nothing_of_it(start: Start, gateway: RunningGateway) -> None:
    editor = start(shell("touch proof"), bash={"touch *": "allow"})
    assert editor.stop_reason() == "end_turn"
    assert ((editor.home.work / "proof").exists(), editor.client.said(ASK)) == (True, [])


async def test_a_person_rejects_and_the_command_does_not_run(start: Start, gateway: RunningGateway) -> None:
    editor = start(shell("touch proof"))
    ann = gateway.person()
    shown = await ann.answer_next(editor.session, "reject", message="not here")
    editor.stop_reason()
    assert (shown["input"], shown["metadata"]["judged_on"]) == ({"command": "touch proof"}, "title")
    assert not (editor.home.work / "proof").exists()
    assert "canceled by the user" in editor.model.results["run_shell_command"]
    await ann.close()


async def test_the_editor_answers_first_and_its_always_is_a_grant_that_answers_the_next(
    start: Start, gateway: RunningGateway
) -> None:
    editor = start(shell("touch proof"), shell("touch proof && touch second"))
    [asked] = editor.client.received(ASK)
    always = next(one["optionId"] for one in asked["params"]["options"] if one["kind"] == "allow_always")
    editor.client.end.say(chosen(asked["id"], always))
    editor.stop_reason()
    assert (editor.home.work / "second").exists()
    assert len(editor.client.said(ASK)) == 1
    ann = gateway.person()
    asked_rows = [row["event"] for row in await ann.events(editor.session) if row["type"] == "asked"]
    assert [row["verdict"] for row in asked_rows] == ["ask", "allow"], "the agent went on asking"
    await ann.close()


async def test_an_edit_is_judged_by_its_file(start: Start) -> None:
    write = [Call("write_file", {"file_path": "docs/new.txt", "content": "x"}, "call_1")]
    editor = start(write, edit={"*": "deny", "docs/*": "allow"})
    editor.stop_reason()
    assert (editor.home.work / "docs" / "new.txt").read_text().strip() == "x"


async def test_a_cancelled_turn_withdraws_what_is_pending(start: Start, gateway: RunningGateway) -> None:
    editor = start(shell("touch proof"))
    ann = gateway.person()
    await ann.waiting(editor.session)
    editor.client.end.say({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": editor.session}})
    assert editor.stop_reason() == "cancelled"
    await wait_until_async(lambda: causes(ann, editor.session), "the request to be cancelled")
    assert await causes(ann, editor.session) == ["asker_gave_up"]
    assert not (editor.home.work / "proof").exists()
    await ann.close()


async def test_a_gateway_killed_and_started_again_while_somebody_is_asked_changes_nothing(
    start: Start, gateway: RunningGateway
) -> None:
    editor = start(shell("touch proof"))
    ann = gateway.person()
    await ann.waiting(editor.session)
    gateway.kill9()
    await asyncio.to_thread(gateway.start)
    await ann.answer_next(editor.session, "once")
    editor.stop_reason()
    assert (editor.home.work / "proof").exists()
    await ann.close()


async def test_an_agent_that_was_killed_with_its_bridge_and_started_again_attaches_to_what_is_pending(
    start: Start, gateway: RunningGateway
) -> None:
    first = start(shell("touch proof"), options=("--session", "kept"))
    ann = gateway.person()
    [shown] = await ann.waiting("kept")
    first.client.received(ASK)
    first.client.kill()
    again = start(shell("touch proof"), options=("--session", "kept"))
    again.client.received(ASK)
    assert [row["request_id"] for row in await ann.pending("kept")] == [shown["request_id"]]
    await ann.reply("kept", shown["request_id"], "once")
    assert (again.stop_reason(), (again.home.work / "proof").exists()) == ("end_turn", True)
    await ann.close()


async def test_a_bridge_that_dies_lets_nothing_run(start: Start, gateway: RunningGateway) -> None:
    editor = start(shell("touch proof"))
    ann = gateway.person()
    [shown] = await ann.waiting(editor.session)
    editor.client.kill(whole_group=False)
    await ann.reply(editor.session, shown["request_id"], "once")
    await wait_until_async(lambda: not _lives(editor.home), "the agent to end", 30)
    assert not (editor.home.work / "proof").exists()
    await ann.close()


async def test_of_two_people_who_answer_at_once_one_is_told_who_was_first(
    start: Start, gateway: RunningGateway
) -> None:
    editor = start(shell("touch proof"))
    ann, bob = gateway.person("ann"), gateway.person("bob")
    [shown] = await ann.waiting(editor.session)
    found = await asyncio.gather(
        ann.reply(editor.session, shown["request_id"], "once"),
        bob.reply(editor.session, shown["request_id"], "reject"),
        return_exceptions=True,
    )
    editor.stop_reason()
    [lost] = [one for one in found if isinstance(one, GatewayRefusalError)]
    [won] = [one for one in found if isinstance(one, dict)]
    assert lost.code == "ALREADY_ANSWERED"
    assert (editor.home.work / "proof").exists() is (won["outcome"] == "allowed")
    for person in (ann, bob):
        await person.close()


async def test_a_ledger_that_cannot_be_reached_never_allows(start: Start, gateway: RunningGateway) -> None:
    gateway.kill9()
    editor = start(shell("touch proof"), options=("--grace", "0"), bash="allow")
    editor.stop_reason()
    assert not (editor.home.work / "proof").exists()


@pytest.mark.parametrize("reply", ["once", "reject"])
async def test_the_hook_asks_about_every_call_with_its_exact_input(
    gateway: RunningGateway, program: Path, tmp_path: Path, reply: str
) -> None:
    home, model = Home(tmp_path), ScriptedModel(shell("touch proof"))
    line = hook_settings("gemini", "--session", "hooked")["hooks"]["BeforeTool"][0]["hooks"][0]["command"]
    environment = {**home.gemini(model.url, line), "PERMISSION_LEDGER_HOME": str(gateway.home)}
    words = [str(program), "--approval-mode", "yolo", "-p", "do the work"]
    with start_program(words, home, environment) as running:
        ann = gateway.person()
        shown = await ann.answer_next("hooked", reply)
        await asyncio.to_thread(running.communicate, timeout=LONG_S)
        await ann.close()
    model.close()
    assert shown["input"]["command"] == "touch proof"
    assert (home.work / "proof").exists() is (reply == "once")


@pytest.mark.parametrize("scope", ["user", "project"])
async def test_an_installed_hook_runs_and_after_uninstalling_it_does_not(
    gateway: RunningGateway, program: Path, tmp_path: Path, scope: str
) -> None:
    home, model = Home(tmp_path), ScriptedModel(shell("touch proof"))
    environment = {**home.gemini(model.url), "PERMISSION_LEDGER_HOME": str(gateway.home)}
    words = [str(program), "--approval-mode", "yolo", "-p", "do the work"]
    there = (home.folder / "home" if scope == "user" else home.work) / ".gemini" / "settings.json"
    hook_command("gemini", home, environment, "--install", "--yes", "--scope", scope, "--session", "hooked")
    assert f"{there}: installed for BeforeTool" in hook_command("gemini", home, environment, "--status")
    ann = gateway.person()
    with start_program(words, home, environment) as running:
        shown = await ann.answer_next("hooked", "reject")
        await asyncio.to_thread(running.communicate, timeout=LONG_S)
    assert (shown["input"]["command"], (home.work / "proof").exists()) == ("touch proof", False)
    hook_command("gemini", home, environment, "--uninstall", "--yes", "--scope", scope)
    # Gemini CLI itself writes its settings anew, so that they are not compared byte for byte.
    assert "run.py" not in (there.read_text() if there.exists() else "")
    model.say_next(shell("touch second"))
    with start_program(words, home, environment) as running:
        await asyncio.to_thread(running.communicate, timeout=LONG_S)
    assert (home.work / "second").exists(), "nobody was asked"
    assert await ann.pending("hooked") == []
    await ann.close()
    model.close()


def _lives(home: Home) -> bool:
    """Return whether a process still runs in the client's folder."""
    places = [path / "cwd" for path in Path("/proc").iterdir() if path.name.isdigit()]
    for place in places:
        with suppress(OSError):
            if place.readlink() == home.work:
                return True
    return False
