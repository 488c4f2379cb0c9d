"""One session of each real client, all in one working folder and on one ledger, each asking something at the same time."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple
from uuid import uuid4

from tests.agents import anthropic_model, openai_model
from tests.agents.claude_client import BRIDGE, Room
from tests.agents.clients import installed, why_left_out
from tests.agents.opencode_client import BridgeProcess, OpenCodeClient
from tests.agents.rpc_client import MODEL, Home, RpcClient, bridge
from tests.agents.scripted_model import Call, ScriptedModel
from tests.support.gateways import Row, RunningGateway
from tests.support.processes import ROOT
from tests.support.waiting import wait_until, wait_until_async

PROJECT: Final = "shop"
LONG_S: Final = 90.0

PRICES: Final = "def total(prices):\n    return sum(prices)\n"
PATCH: Final = (
    "*** Begin Patch\n*** Update File: prices.py\n@@\n def total(prices):\n-    return sum(prices)\n"
    "+    return round(sum(prices), 2)\n*** End Patch\n"
)
TEST: Final = "from prices import total\n\nassert total([0.1, 0.2]) == 0.3\n"

NIGHTLY: Final = """
import asyncio, subprocess, sys
from ledger import Ledger
from ledger.guarding import asking, guarded

@guarded("bash")
async def run(command: str) -> int:
    return subprocess.run(command, shell=True, check=False).returncode

async def main():
    async with Ledger.connect(actor="nightly job") as ledger:
        session = await ledger.session(sys.argv[1], project=sys.argv[2], agent="python", cwd=sys.argv[3])
        with asking(session):
            await run(command="python -m compileall -q prices.py")

asyncio.run(main())
"""


class Asked(NamedTuple):
    """A tool call that a client's model makes: the text that a person sees, and the check that it was run."""

    shown: str
    was_done: Callable[[Path], bool]


ASKED: Final[dict[str, Asked]] = {
    "claude": Asked("test_prices.py", lambda work: (work / "test_prices.py").exists()),
    "opencode": Asked("git tag v1.4.0", lambda work: "v1.4.0" in _git(work, "tag")),
    "gemini": Asked("rm -r build", lambda work: not (work / "build").exists()),
    "codex": Asked("prices.py", lambda work: "round" in (work / "prices.py").read_text()),
    "codelia": Asked("git commit", lambda work: "Keep prices" in _git(work, "log", "--format=%s")),
    "python": Asked("python -m compileall", lambda work: (work / "__pycache__").exists()),
}

ANSWERS: Final[dict[str, tuple[str, str | None]]] = {
    "claude": ("once", None),
    "opencode": ("always", None),
    "gemini": ("reject", "keep it until the release is out"),
    "codex": ("session", None),
    "codelia": ("once", None),
    "python": ("once", None),
}
"""A person's reply to each client, with its text."""

PreOpen = Callable[[str, str, str], None]
"""A function called with a session's id, and its client's dialect and agent name, before the client asks."""


class Together:
    """`folder` holds the clients' own files, `work` is their common working folder. Codelia takes part if available."""

    def __init__(self, gateway: RunningGateway, folder: Path, work: Path, pre_open: PreOpen | None = None) -> None:
        self.gateway, self.folder, self.work = gateway, folder, work
        self.sessions: dict[str, str] = {}
        self._pre_open = pre_open
        self._closing: list[Callable[[], object]] = []
        self._ends: dict[str, Callable[[], object]] = {}
        self._client: OpenCodeClient | None = None
        self._environment = {"PERMISSION_LEDGER_HOME": str(gateway.home)}
        work.mkdir(parents=True, exist_ok=True)
        _git(work, "init", "-q", "-b", "main")
        for name, value in (("user.name", "shop"), ("user.email", "shop@example.com")):
            _git(work, "config", name, value)
        # Tagging does not wait for committing.
        _git(work, "commit", "-q", "--allow-empty", "-m", "Begin")
        (work / "prices.py").write_text(PRICES)
        (work / "build").mkdir()
        (work / "build" / "old").write_text("")
        _git(work, "add", "prices.py")

    async def start(self) -> None:
        """Start all clients; return when each has a turn in flight."""
        for start in (self._claude, self._gemini, self._codex, self._python):
            await asyncio.to_thread(start)
        if why_left_out("codelia") is None:
            await asyncio.to_thread(self._codelia)
        await self._opencode()

    async def ended(self) -> None:
        """Wait until each client has ended its turn."""
        for end in self._ends.values():
            await asyncio.to_thread(end)
        assert self._client is not None
        await self._client.tool(self.sessions["opencode"], "call_tag")

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()
        for close in reversed(self._closing):
            await asyncio.to_thread(close)

    def _begins(self, name: str, session: str, dialect: str = "opencode", agent: str | None = None) -> None:
        self.sessions[name] = session
        if self._pre_open is not None:
            self._pre_open(session, dialect, agent or name)

    # --- each of them

    def _claude(self) -> None:
        write = {"file_path": str(self.work / "test_prices.py"), "content": TEST}
        model = anthropic_model.Model([[anthropic_model.use("Write", write, "toolu_1")]])
        self._closing.append(model.close)
        room = Room(self.folder / "claude", installed("claude"), model, self.work)
        session = str(uuid4())
        self._begins("claude", session, "claude", "claude-code")
        wrapper = (*BRIDGE, "--project", PROJECT)
        client = room.start("--session-id", session, wrapper=wrapper, environment=self._environment)
        self._closing.append(client.close)
        self._ends["claude"] = client.result
        client.say("test the prices")

    async def _opencode(self) -> None:
        model = openai_model.Model([[openai_model.bash("git tag v1.4.0", "call_tag")]])
        self._closing.append(model.close)
        folder = self.folder / "opencode"
        self._client = OpenCodeClient(folder, installed("opencode"), model, project=self.work)
        await asyncio.to_thread(self._client.start)
        words = ("--url", self._client.url, "--project", PROJECT)
        self._closing.append(BridgeProcess(self.gateway, folder, *words).kill)
        session = await self._client.open()
        await asyncio.to_thread(self._begins, "opencode", session)
        await self._client.say(session)

    def _rpc(self, name: str, model: ScriptedModel | openai_model.Model, words: Sequence[str], home: Home) -> RpcClient:
        self._closing.append(model.close)
        settings: dict[str, Callable[[str], dict[str, str]]]
        settings = {"gemini": home.gemini, "codex": home.codex, "codelia": home.codelia}
        environment = {**settings[name](model.url), **self._environment}
        client = RpcClient([*words, str(installed(name)), *_WORDS[name]], home, environment)
        self._closing.append(client.close)
        return client

    def _gemini(self) -> None:
        wanted = {"command": "rm -r build", "description": "Start from nothing"}
        model = ScriptedModel([Call("run_shell_command", wanted, "call_1")])
        home = Home(self.folder / "gemini", self.work)
        client = self._rpc("gemini", model, bridge("acp", "--project", PROJECT), home)
        offered = {"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False}
        client.call("initialize", {"protocolVersion": 1, "clientCapabilities": offered})
        session = client.call("session/new", {"cwd": str(self.work), "mcpServers": []})["sessionId"]
        self._begins("gemini", session)
        said = [{"type": "text", "text": "clean up"}]
        prompt = client.begin("session/prompt", {"sessionId": session, "prompt": said})
        self._ends["gemini"] = lambda: client.ended(prompt)

    def _codex(self) -> None:
        model = ScriptedModel([Call("apply_patch", {}, "call_p", PATCH)])
        home = Home(self.folder / "codex", self.work)
        client = self._rpc("codex", model, bridge("codex", "--project", PROJECT), home)
        client.call("initialize", {"clientInfo": {"name": "ide", "title": "IDE", "version": "1"}})
        client.end.say({"method": "initialized"})
        about = {"approvalPolicy": "untrusted", "sandbox": "danger-full-access", "model": MODEL}
        opened = client.call("thread/start", {"cwd": str(self.work), "modelProvider": "test", **about})
        session = opened["thread"]["id"]
        self._begins("codex", session)
        client.call("turn/start", {"threadId": session, "input": [{"type": "text", "text": "round the prices"}]})
        self._ends["codex"] = lambda: client.received("turn/completed")

    def _codelia(self) -> None:
        commit = {"command": 'git commit -q -m "Keep prices in a module of their own"'}
        model = openai_model.Model([[openai_model.use("shell", commit, "call_c")]])
        home = Home(self.folder / "codelia", self.work)
        session = f"codelia-{uuid4()}"
        self._begins("codelia", session, "codelia")
        client = self._rpc("codelia", model, bridge("codelia", "--project", PROJECT, "--session", session), home)
        about = {"name": "codelia-tui", "version": "0.1.80"}
        asks = {"supports_confirm": True, "supports_prompt": True}
        client.call("initialize", {"protocol_version": "0", "client": about, "ui_capabilities": asks})
        client.call("run.start", {"input": {"type": "text", "text": "commit it"}})

        def ended() -> bool:
            return any(one["params"]["status"] == "completed" for one in client.said("run.status"))

        self._ends["codelia"] = lambda: wait_until(ended, "Codelia's run to end", LONG_S)

    def _python(self) -> None:
        session = f"nightly-{uuid4()}"
        self._begins("python", session)
        environment = {**self.gateway.environment, "PERMISSION_LEDGER_URL": self.gateway.server.url}
        process = subprocess.Popen(
            [sys.executable, "-c", NIGHTLY, session, PROJECT, str(self.work)],
            cwd=self.work,
            env={**environment, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.DEVNULL,
        )
        self._closing += [lambda: process.wait(LONG_S), process.kill]
        self._ends["python"] = lambda: process.wait(LONG_S)

    # --- results

    def done(self) -> dict[str, bool]:
        """Return whether each client's tool call was run, by client."""
        return {name: ASKED[name].was_done(self.work) for name in self.sessions}


_WORDS: Final = {"gemini": ["--acp"], "codex": ["app-server"], "codelia": []}


def _git(work: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=work, capture_output=True, text=True, check=False)
    return done.stdout


async def all_wait(gateway: RunningGateway, together: Together) -> dict[str, Row]:
    """Return the pending request of each client by name, from the gateway's list of all sessions."""
    ann = gateway.person()
    by_session = {session: name for name, session in together.sessions.items()}

    async def rows() -> dict[str, Row]:
        found = {by_session[row["session"]]: row for row in await ann.all_pending()}
        return found if len(found) == len(by_session) else {}

    try:
        return await wait_until_async(rows, "each client to wait", LONG_S)
    finally:
        await ann.close()
