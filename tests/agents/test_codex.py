"""Journeys of the real Codex: its app-server behind the bridge, and with the hooks."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.agents.editor import verdicts
from tests.agents.rpc_client import LONG_S, MODEL, Home, RpcClient, bridge, hook_command, hook_settings
from tests.agents.scripted_model import Call, ScriptedModel, Turn
from tests.support.gateways import RunningGateway
from tests.support.waiting import wait_until, wait_until_async
from tests.workers.bridges.codex_talk import decided

pytestmark = [pytest.mark.agents("codex"), pytest.mark.timeout(180)]

COMMAND = "item/commandExecution/requestApproval"
PATCH = "item/fileChange/requestApproval"
UPDATE = "*** Begin Patch\n*** Update File: hello.txt\n@@\n-hello\n+moon\n*** Add File: new.txt\n+new\n*** End Patch\n"


class Ide:
    """A client of the app-server with one thread and one turn under way."""

    def __init__(
        self, client: RpcClient, model: ScriptedModel, home: Home, *, trusts: bool, resume: str | None = None
    ) -> None:
        self.client, self.model, self.home = client, model, home
        client.call("initialize", {"clientInfo": {"name": "ide", "title": "IDE", "version": "1"}})
        client.end.say({"method": "initialized"})
        if trusts:
            self._trust_hooks()
        about = {"approvalPolicy": "untrusted", "sandbox": "danger-full-access", "model": MODEL}
        about |= {"cwd": str(home.work), "modelProvider": "test"}
        if resume is None:
            opened = client.call("thread/start", about)
        else:
            opened = client.call("thread/resume", {"threadId": resume, **about})
        self.thread: str = opened["thread"]["id"]
        said = [{"type": "text", "text": "do the work"}]
        started = client.call("turn/start", {"threadId": self.thread, "input": said})
        self.turn: str = started["turn"]["id"]

    def _trust_hooks(self) -> None:
        listed = self.client.call("hooks/list", {"cwds": [str(self.home.work)]})
        hooks = [hook for one in listed["data"] for hook in one["hooks"]]
        value = {hook["key"]: {"trusted_hash": hook["currentHash"]} for hook in hooks}
        edit = {"keyPath": "hooks.state", "value": value, "mergeStrategy": "upsert"}
        self.client.call("config/batchWrite", {"edits": [edit], "reloadUserConfig": True})

    def status(self) -> str:
        """Return the final status of the turn."""

        def found() -> list[str]:
            turns = [one["params"]["turn"] for one in self.client.said("turn/completed")]
            return [turn["status"] for turn in turns if turn["id"] == self.turn]

        [status] = wait_until(found, "the end of the turn", LONG_S)
        return status


Start = Callable[..., Ide]


@pytest.fixture
def start(gateway: RunningGateway, program: Path, tmp_path: Path) -> Iterator[Start]:
    ides: list[Ide] = []

    def start(
        *turns: Turn,
        options: tuple[str, ...] = (),
        wrapped: bool = True,
        hooks: Any = None,
        features: tuple[str, ...] = (),
        resume: str | None = None,
        **rules: Any,
    ) -> Ide:
        home, model = Home(tmp_path), ScriptedModel(*turns)
        (home.work / "hello.txt").write_text("hello\n")
        (tmp_path / "rules.json").write_text(json.dumps({"permission": rules}))
        words = bridge("codex", "--rules", str(tmp_path / "rules.json"), *options) if wrapped else []
        environment = {**home.codex(model.url, hooks, features), "PERMISSION_LEDGER_HOME": str(gateway.home)}
        client = RpcClient([*words, str(program), "app-server"], home, environment)
        ides.append(Ide(client, model, home, trusts=hooks is not None, resume=resume))
        return ides[-1]

    yield start
    for ide in ides:
        ide.client.close()
        ide.model.close()


def shell(command: str, call_id: str = "call_a") -> Call:
    return Call("exec_command", {"cmd": command}, call_id)


def patch() -> Call:
    return Call("apply_patch", {}, "call_p", UPDATE)


async def test_rules_allow_and_the_client_hears_nothing_of_it(start: Start) -> None:
    ide = start([shell("touch proof")], [patch()], bash={"touch *": "allow"}, edit={"*.txt": "allow"})
    assert ide.status() == "completed"
    assert ((ide.home.work / "proof").exists(), (ide.home.work / "new.txt").exists()) == (True, True)
    assert ide.client.said(COMMAND) + ide.client.said(PATCH) == []


async def test_a_person_sees_what_a_patch_would_change_and_rejects(start: Start, gateway: RunningGateway) -> None:
    ide = start([patch()])
    ann = gateway.person()
    shown = await ann.answer_next(ide.thread, "reject")
    assert ide.status() == "completed"
    assert (shown["patterns"], "+moon" in shown["metadata"]["diff"]) == (["hello.txt", "new.txt"], True)
    assert ((ide.home.work / "hello.txt").read_text(), (ide.home.work / "new.txt").exists()) == ("hello\n", False)
    assert "rejected by user" in ide.model.results["call_p"]
    await ann.close()


async def test_calls_at_once_are_answered_here_and_there(start: Start, gateway: RunningGateway) -> None:
    ide = start([shell("touch one"), shell("touch two", "call_b")])
    ann = gateway.person()
    rows = {row["input"]["command"]: row["request_id"] for row in await ann.waiting(ide.thread, 2)}
    asked = {one["params"]["itemId"]: one["id"] for one in ide.client.received(COMMAND, 2)}
    ide.client.end.say(decided(asked["call_b"], "accept"))
    await ann.reply(ide.thread, rows["touch one"], "once")
    assert ide.status() == "completed"
    assert ((ide.home.work / "one").exists(), (ide.home.work / "two").exists()) == (True, True)
    await ann.close()


async def test_the_prefix_that_codex_would_remember_is_a_grant_that_answers_the_next(
    start: Start, gateway: RunningGateway
) -> None:
    ide = start([shell("touch proof")], [shell("touch proof", "call_b")])
    [asked] = ide.client.received(COMMAND)
    words = asked["params"]["proposedExecpolicyAmendment"]
    decision = {"acceptWithExecpolicyAmendment": {"execpolicy_amendment": words}}
    ide.client.end.say(decided(asked["id"], decision))
    assert ide.status() == "completed"
    assert (words, len(ide.client.said(COMMAND))) == (["touch", "proof"], 1)
    ann = gateway.person()
    asked_rows = [row["event"] for row in await ann.events(ide.thread) if row["type"] == "asked"]
    assert [row["verdict"] for row in asked_rows] == ["ask", "allow"], "Codex went on asking"
    assert list((ide.home.folder / "home" / ".codex").glob("rules/*")) == [], "and wrote no rule of its own"
    await ann.close()


async def test_an_interrupted_turn_withdraws_what_is_pending(start: Start, gateway: RunningGateway) -> None:
    ide = start([shell("touch proof")])
    ann = gateway.person()
    await ann.waiting(ide.thread)
    ide.client.call("turn/interrupt", {"threadId": ide.thread, "turnId": ide.turn})
    assert ide.status() == "interrupted"
    await wait_until_async(lambda: _causes(ann, ide.thread), "the request to be cancelled")
    assert (await _causes(ann, ide.thread), (ide.home.work / "proof").exists()) == (["asker_gave_up"], False)
    await ann.close()


async def test_a_gateway_killed_and_started_again_while_somebody_is_asked_changes_nothing(
    start: Start, gateway: RunningGateway
) -> None:
    ide = start([shell("touch proof")])
    ann = gateway.person()
    await ann.waiting(ide.thread)
    gateway.kill9()
    await asyncio.to_thread(gateway.start)
    await ann.answer_next(ide.thread, "once")
    assert (ide.status(), (ide.home.work / "proof").exists()) == ("completed", True)
    await ann.close()


async def test_a_ledger_that_cannot_be_reached_never_allows(start: Start, gateway: RunningGateway) -> None:
    gateway.kill9()
    ide = start([shell("touch proof")], options=("--grace", "0"), bash="allow")
    assert (ide.status(), (ide.home.work / "proof").exists()) == ("completed", False)


async def test_an_agent_that_was_killed_leaves_nothing_that_runs(start: Start, gateway: RunningGateway) -> None:
    ide = start([shell("touch proof")])
    ann = gateway.person()
    [shown] = await ann.waiting(ide.thread)
    ide.client.kill()
    await ann.reply(ide.thread, shown["request_id"], "once")
    assert not (ide.home.work / "proof").exists()
    await ann.close()


async def test_a_resumed_thread_attaches_to_what_is_pending_and_uses_its_answer_once(
    start: Start, gateway: RunningGateway
) -> None:
    first = start([shell("touch proof")])
    ann = gateway.person()
    [shown] = await ann.waiting(first.thread)
    first.client.received(COMMAND)
    first.client.kill()
    again = start([shell("touch proof", "call_b")], [shell("touch proof", "call_c")], resume=first.thread)
    again.client.received(COMMAND)
    assert [row["request_id"] for row in await ann.pending(first.thread)] == [shown["request_id"]]
    await ann.reply(first.thread, shown["request_id"], "once")
    another = await ann.answer_next(first.thread, "reject")
    assert (again.status(), another["tool"]["call_id"]) == ("completed", "call_c")
    assert (again.home.work / "proof").exists()
    assert await verdicts(ann, first.thread) == ["ask", "ask"], "the killed agent's request, and the third call's"
    await ann.close()


@pytest.mark.parametrize(("reply", "expected"), [("always", ["ask", "allow"]), ("once", ["ask", "ask"])])
async def test_what_was_answered_while_the_agent_was_gone_counts_for_another_call_only_if_it_is_a_grant(
    start: Start, gateway: RunningGateway, reply: str, expected: list[str]
) -> None:
    first = start([shell("touch proof")])
    ann = gateway.person()
    [shown] = await ann.waiting(first.thread)
    first.client.received(COMMAND)
    first.client.kill()
    await ann.reply(first.thread, shown["request_id"], reply)
    again = start([shell("touch proof", "call_b")], resume=first.thread)
    if reply == "once":
        await ann.answer_next(first.thread, "once")
    assert (again.status(), (again.home.work / "proof").exists()) == ("completed", True)
    assert await verdicts(ann, first.thread) == expected
    await ann.close()


@pytest.mark.parametrize(
    ("namespace", "more", "features"),
    [("multi_agent_v1", {}, ()), ("collaboration", {"task_name": "below"}, ("multi_agent_v2",))],
)
async def test_a_sub_agent_asks_below_its_parent(
    start: Start, gateway: RunningGateway, namespace: str, more: dict[str, str], features: tuple[str, ...]
) -> None:
    spawn = Call("spawn_agent", {"message": "work", **more}, "call_s", namespace=namespace)
    # The order of the two threads is not fixed: each runs some of these.
    work = [[shell("touch one", f"call_{number}")] for number in range(6)]
    ide = start([spawn], *work, features=features)
    ann = gateway.person()
    seen: dict[str, list[str]] = {}

    async def both_ended() -> bool:
        for row in await ann.pending_below(ide.thread):
            seen[row["session"]] = row["lineage"]
            await ann.reply(row["session"], row["request_id"], "once")
        return len(ide.client.said("turn/completed")) == 2

    await wait_until_async(both_ended, "the agent and its sub-agent to end", LONG_S)
    lineages = [lineage for session, lineage in seen.items() if session != ide.thread]
    assert (lineages, (ide.home.work / "one").exists()) == ([[ide.thread]], True)
    assert len(ide.client.said("serverRequest/resolved")) == len(work), "every call was asked about, and answered"
    await ann.close()


@pytest.mark.parametrize(
    ("event", "reply"), [("PermissionRequest", "once"), ("PermissionRequest", "reject"), ("PreToolUse", "reject")]
)
async def test_the_hook_decides_before_the_client_is_asked(
    start: Start, gateway: RunningGateway, event: str, reply: str
) -> None:
    hooks = hook_settings("codex", "--event", event, "--session", "hooked")
    ide = start([shell("touch proof")], wrapped=False, hooks=hooks)
    ann = gateway.person()
    more = {"message": "not here"} if reply == "reject" else {}
    shown = await ann.answer_next("hooked", reply, **more)
    assert ide.status() == "completed"
    assert (shown["tool_name"], shown["input"]["command"]) == ("bash", "touch proof")
    assert ((ide.home.work / "proof").exists(), ide.client.said(COMMAND)) == (reply == "once", [])
    assert ("not here" in ide.model.results["call_a"]) is (reply == "reject")
    await ann.close()


@pytest.mark.parametrize("scope", ["user", "project"])
async def test_an_installed_hook_runs_once_it_is_trusted_and_after_uninstalling_it_does_not(
    gateway: RunningGateway, program: Path, tmp_path: Path, scope: str
) -> None:
    home, model = Home(tmp_path), ScriptedModel([shell("touch proof")])
    environment = {**home.codex(model.url), "PERMISSION_LEDGER_HOME": str(gateway.home)}
    environment["PATH"] = f"{program.parent}:{environment['PATH']}"  # a shared line names our command
    kept = home.folder / "home" / ".codex" / "config.toml"
    kept.write_text(f"# mine, and it stays\n{kept.read_text()}")
    there = home.work / ".codex" / "hooks.json" if scope == "project" else kept.with_name("hooks.json")
    install = ("--install", "--yes", "--scope", scope, "--session", "hooked")
    hook_command("codex", home, environment, *install)
    assert "leaves it out until it is trusted" in hook_command("codex", home, environment, "--status", code=11)
    hook_command("codex", home, environment, *install, "--trust")
    assert f"{there}: trusted" in hook_command("codex", home, environment, "--status")
    assert kept.read_text().startswith("# mine, and it stays\n"), "Codex keeps comments"
    ann = gateway.person()
    client = RpcClient([str(program), "app-server"], home, environment)
    ide = Ide(client, model, home, trusts=False)
    await ann.answer_next("hooked", "reject")
    assert (ide.status(), client.said(COMMAND), (home.work / "proof").exists()) == ("completed", [], False)
    client.close()
    hook_command("codex", home, environment, "--uninstall", "--yes", "--scope", scope)
    assert not there.exists()
    model.say_next([shell("touch second", "call_b")])
    client = RpcClient([str(program), "app-server"], home, environment)
    ide = Ide(client, model, home, trusts=False)
    [asked] = client.received(COMMAND)
    client.end.say(decided(asked["id"], "accept"))
    assert (ide.status(), (home.work / "second").exists()) == ("completed", True)
    assert await ann.pending("hooked") == []
    client.close()
    await ann.close()
    model.close()


async def _causes(person: Any, session: str) -> list[str]:
    return [row["event"]["cause"] for row in await person.events(session) if row["type"] == "cancelled"]
