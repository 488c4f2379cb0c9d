"""With every answer an allow, a client behind a bridge sends the same messages as without, except for ids and times."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from tests.agents.editor import ASK, Editor
from tests.agents.likeness import Likeness
from tests.agents.openai_model import Model, bash, use
from tests.agents.opencode_client import BridgeProcess, OpenCodeClient
from tests.agents.rpc_client import LONG_S, MODEL, Home, RpcClient, bridge
from tests.agents.scripted_model import Call, ScriptedModel
from tests.support.gateways import RunningGateway
from tests.support.processes import free_port
from tests.support.waiting import wait_until, wait_until_async
from tests.workers.bridges.acp_talk import chosen
from tests.workers.bridges.codex_talk import decided

pytestmark = [pytest.mark.timeout(240)]

Said = tuple[list[str], list[str]]
"""A client's messages to its host, and those to its model."""

PATCH: Final = "*** Begin Patch\n*** Add File: new.txt\n+new\n*** End Patch\n"
STEPS_COUNT: Final = 3
"""The steps of the agent in OpenCode: two calls and a last word. It reports the differences before and after each."""

UNORDERED: Final = (
    "server.heartbeat", "session.updated", "session.diff", "file.watcher.updated",
    "plugin.added", "catalog.updated", "reference.updated", "integration.updated",
)  # fmt: skip
APPROVALS: Final = ("item/commandExecution/requestApproval", "item/fileChange/requestApproval")


@pytest.fixture
def rules(tmp_path: Path) -> str:
    path = tmp_path / "rules.json"
    path.write_text(json.dumps({"permission": "allow"}))
    return str(path)


@pytest.fixture
def home(tmp_path: Path) -> Callable[[], Home]:
    """The same empty folder again: clients send paths."""

    def made() -> Home:
        folder = tmp_path / "run"
        shutil.rmtree(folder, ignore_errors=True)
        return Home(folder)

    return made


def without(messages: list[dict[str, Any]], *methods: str) -> list[dict[str, Any]]:
    """Return the messages without the named methods: those that reach a host that is asked nothing."""
    return [one for one in messages if one.get("method") not in methods]


def codex(program: Path, home: Home, environment: dict[str, str], words: list[str]) -> Said:
    turns = [[Call("exec_command", {"cmd": "echo one"}, "call_a")], [Call("apply_patch", {}, "call_b", PATCH)]]
    model = ScriptedModel(*turns)
    client = RpcClient([*words, str(program), "app-server"], home, {**home.codex(model.url), **environment})
    client.call("initialize", {"clientInfo": {"name": "ide", "title": "IDE", "version": "1"}})
    client.end.say({"method": "initialized"})
    about = {"approvalPolicy": "untrusted", "sandbox": "danger-full-access", "model": MODEL, "modelProvider": "test"}
    thread = client.call("thread/start", {"cwd": str(home.work), **about})["thread"]["id"]
    client.call("turn/start", {"threadId": thread, "input": [{"type": "text", "text": "do the work"}]})
    answered: set[int] = set()

    def ended() -> bool:
        for asked in [one for method in APPROVALS for one in client.said(method)]:
            if asked["id"] not in answered:
                answered.add(asked["id"])
                client.end.say(decided(asked["id"], "accept"))
        return bool(client.said("turn/completed"))

    wait_until(ended, "the turn to end", LONG_S)
    client.close()
    model.close()
    assert (home.work / "new.txt").read_text() == "new\n"
    likeness = Likeness()
    return likeness.of(without(client.end.messages, *APPROVALS)), likeness.of(model.requests)


@pytest.mark.agents("codex")
def test_codex_says_the_same(program: Path, home: Callable[[], Home], gateway: RunningGateway, rules: str) -> None:
    environment = {"PERMISSION_LEDGER_HOME": str(gateway.home)}
    plain = codex(program, home(), environment, [])
    assert codex(program, home(), environment, bridge("codex", "--rules", rules)) == plain


def acp(words: list[str], home: Home, environment: dict[str, str], model: Any) -> Said:
    editor = Editor(RpcClient(words, home, environment), model, home)
    answered: set[int] = set()

    def ended() -> bool:
        for asked in editor.client.said(ASK):
            if asked["id"] not in answered:
                answered.add(asked["id"])
                options = asked["params"]["options"]
                editor.client.end.say(
                    chosen(asked["id"], next(one["optionId"] for one in options if one["kind"] == "allow_once"))
                )
        return any("stopReason" in one.get("result", {}) for one in editor.client.end.messages)

    wait_until(ended, "the turn to end", LONG_S)
    editor.client.close()
    model.close()
    assert (home.work / "new.txt").read_text().strip() == "new"
    likeness = Likeness()
    return likeness.of(without(editor.client.end.messages, ASK)), likeness.of(model.requests)


def gemini(program: Path, home: Home, environment: dict[str, str], words: list[str]) -> Said:
    shell = Call("run_shell_command", {"command": "touch one", "description": "work"}, "call_a")
    write = Call("write_file", {"file_path": "new.txt", "content": "new"}, "call_b")
    model = ScriptedModel([shell], [write])
    return acp([*words, str(program), "--acp"], home, {**home.gemini(model.url), **environment}, model)


def opencode_acp(program: Path, home: Home, environment: dict[str, str], words: list[str]) -> Said:
    write = use("write", {"filePath": "new.txt", "content": "new"}, "call_b")
    model = Model([[bash("echo one", "call_a")], [write]])
    agent = [str(program), "acp", "--hostname", "127.0.0.1", "--port", str(free_port())]
    return acp([*words, *agent], home, {**home.opencode(model.url), **environment}, model)


class Follower:
    """All events of an OpenCode server about a project, until it is closed."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self.events: list[dict[str, Any]] = []
        self._following = asyncio.create_task(self._follow(http))

    async def _follow(self, http: httpx.AsyncClient) -> None:
        async with http.stream("GET", "/event", timeout=None) as answer:
            async for line in answer.aiter_lines():
                if line.startswith("data:"):
                    self.events.append(json.loads(line.removeprefix("data:")))

    def of_kind(self, kind: str) -> list[dict[str, Any]]:
        return [one["properties"] for one in self.events if one["type"] == kind]

    def has_counted(self, steps: int) -> bool:
        """Return whether the session's totals have every step; a loaded server reports them after it is idle."""
        told = self.of_kind("session.updated")
        return bool(told) and told[-1]["info"]["tokens"]["input"] >= steps

    async def wait_for(self, kind: str) -> None:
        await wait_until_async(lambda: bool(self.of_kind(kind)), kind, LONG_S)

    async def close(self) -> None:
        self._following.cancel()
        await asyncio.gather(self._following, return_exceptions=True)


async def opencode(client: OpenCodeClient, through: int, *, answers: bool) -> Said:
    """Return the events of a server or its proxy on a port; `answers` when nobody else answers requests."""
    query = {"directory": str(client.project)}
    address = f"http://127.0.0.1:{through}"
    async with httpx.AsyncClient(base_url=address, params=query, timeout=30, trust_env=False) as http:
        follower = Follower(http)
        await follower.wait_for("server.connected")
        session = (await http.post("/session", json={"title": "a journey"})).json()["id"]
        model = {"providerID": "test", "modelID": "scripted"}
        body = {"parts": [{"type": "text", "text": "do the work"}], "model": model}
        await http.post(f"/session/{session}/prompt_async", json=body)
        answered: set[str] = set()

        async def at_rest() -> bool:
            for asked in follower.of_kind("permission.asked"):
                if answers and asked["id"] not in answered:
                    answered.add(asked["id"])
                    await http.post(f"/permission/{asked['id']}/reply", json={"reply": "once"})
            is_idle = bool(follower.of_kind("session.idle")) and len(follower.of_kind("session.diff")) > STEPS_COUNT
            return is_idle and follower.has_counted(STEPS_COUNT)

        await wait_until_async(at_rest, "the session to be at rest", LONG_S)
        messages: list[dict[str, Any]] = []

        async def are_complete() -> bool:
            messages[:] = (await http.get(f"/session/{session}/message")).json()
            return "completed" in messages[-1]["info"]["time"]

        await wait_until_async(are_complete, "the last message to be complete", LONG_S)
        await follower.close()
    return said_by_opencode(follower.events, messages), Likeness().of(client.model.requests)


def said_by_opencode(events: list[dict[str, Any]], messages: list[dict[str, Any]]) -> list[str]:
    """Return the events in order, followed by those that OpenCode sends at any time, each kind in its own order."""
    kinds = [one["type"] for one in events]
    told = [{name: value for name, value in one.items() if name != "id"} for one in events]
    in_order = [one for one, kind in zip(told, kinds, strict=True) if kind not in UNORDERED]
    others = [one for unordered in UNORDERED[1:] for one, kind in zip(told, kinds, strict=True) if kind == unordered]
    # When a session's tokens are counted varies, so only its last update is the same each time.
    sessions = {one["properties"]["info"]["id"]: one for one in others if one["type"] == "session.updated"}
    others = [one for one in others if one["type"] != "session.updated"]
    return Likeness().of([*without_repeats(in_order), *messages, *sessions.values(), *others])


def without_repeats(events: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Tell each message once, where its first update is, as its last one said it.

    A loaded server sends an update twice, or writes an earlier one when the message is already complete.
    """
    last = {one["properties"]["info"]["id"]: one for one in events if one["type"] == "message.updated"}
    for one in events:
        if one["type"] != "message.updated":
            yield one
        elif (known := last.pop(one["properties"]["info"]["id"], None)) is not None:
            yield known


def assert_alike(found: Said, expected: Said) -> None:
    """Compare line by line, so that a failure shows the first line that differs rather than both conversations."""
    for ours, theirs in zip(found, expected, strict=True):
        for one, other in zip_longest(ours, theirs):
            assert one == other


@pytest.fixture
async def start(tmp_path: Path) -> AsyncIterator[Callable[..., Any]]:
    """Start a server in the same empty folder again."""
    running: list[OpenCodeClient] = []

    async def end() -> None:
        while running:
            client = running.pop()
            await client.close()
            client.model.close()

    async def started(program: Path, environment: dict[str, str], *wrapper: str) -> OpenCodeClient:
        await end()
        folder = tmp_path / "run"
        shutil.rmtree(folder, ignore_errors=True)
        write = use("write", {"filePath": "new.txt", "content": "new"}, "call_b")
        model = Model([[bash("echo one", "call_a")], [write]])
        client = OpenCodeClient(folder, program, model, wrapper=wrapper)
        running.append(client)
        client.start(environment | client.environment())
        return client

    yield started
    await end()


@pytest.mark.agents("opencode")
async def test_opencode_s_server_says_the_same_with_a_bridge_beside_it_and_through_its_proxy(
    start: Callable[..., Any], program: Path, gateway: RunningGateway, rules: str
) -> None:
    client = await start(program, {})
    plain = await opencode(client, client.port, answers=True)
    client = await start(program, {})
    beside = BridgeProcess(gateway, client.folder, "--url", client.url, "--rules", rules)
    bridged = await opencode(client, client.port, answers=False)
    beside.kill()
    assert_alike(bridged, plain)
    proxy = free_port()
    words = [sys.executable, "-m", "workers.cli", "bridge", "opencode", "--rules", rules]
    client = await start(program, gateway.environment, *words, "--listen", f"127.0.0.1:{proxy}", "--")
    assert_alike(await opencode(client, proxy, answers=False), plain)
    assert (client.project / "new.txt").read_text() == "new"
    client.end()


@pytest.mark.agents("opencode")
def test_opencode_s_acp_says_the_same(
    program: Path, home: Callable[[], Home], gateway: RunningGateway, rules: str
) -> None:
    environment = {"PERMISSION_LEDGER_HOME": str(gateway.home)}
    plain = opencode_acp(program, home(), environment, [])
    assert opencode_acp(program, home(), environment, bridge("acp", "--rules", rules)) == plain


@pytest.mark.agents("gemini")
def test_gemini_says_the_same(program: Path, home: Callable[[], Home], gateway: RunningGateway, rules: str) -> None:
    environment = {"PERMISSION_LEDGER_HOME": str(gateway.home)}
    plain = gemini(program, home(), environment, [])
    assert gemini(program, home(), environment, bridge("acp", "--rules", rules)) == plain
