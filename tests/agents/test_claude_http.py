"""Journeys of the real Claude Code whose hooks the gateway answers over HTTP: no call starts a process."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agents.anthropic_model import Model, bash
from tests.agents.claude_client import LONG_S, Room
from tests.agents.clients import installed
from tests.agents.terminal import Terminal
from tests.support.command_line import CommandLine, Ran
from tests.support.gateways import Person, RunningGateway
from tests.support.servers import RealServer
from tests.support.waiting import wait_until, wait_until_async

pytestmark = [pytest.mark.agents("claude", "claude-older"), pytest.mark.timeout(240)]

SESSION = "ses_http"


class Hooked:
    """A project with the hooks over HTTP, its gateway, and `claude -p` in it."""

    def __init__(self, server: RealServer, folder: Path) -> None:
        rules = folder / "rules.json"
        rules.write_text(json.dumps({"permissions": {"allow": ["Bash(touch *)"], "deny": ["Bash(rm *)"]}}))
        self.gateway = RunningGateway(server, "--rules", f"claude={rules}", with_pages=True)
        self.gateway.start()
        self.model = Model([])
        self.room = Room(folder, installed("claude"), self.model, folder / "my_project")
        self.proof = self.room.work / "proof"

    def bridge(self, *words: str, client: str = "claude", code: int = 0) -> Ran:
        place = {
            **self.room.environment({}),
            "PATH": f"{installed(client).parent}:{os.environ['PATH']}",
            "PERMISSION_LEDGER_HOME": str(self.gateway.home),
        }
        line = CommandLine(self.gateway.server.url, place, folder=self.room.work)
        return line("bridge", "claude", *words, code=code)

    def start(self, *words: str) -> subprocess.Popen[str]:
        command = [str(self.room.program), "-p", "do the work", *words]
        return subprocess.Popen(
            command,
            cwd=self.room.work,
            env=self.room.environment({}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def sit_down(self) -> Terminal:
        """Start the client at a terminal, and give it its work."""
        answered = {"theme": "dark", "customApiKeyResponses": {"approved": ["none"], "rejected": []}}
        config = self.room.config / ".claude.json"
        config.write_text(json.dumps({**json.loads(config.read_text()), **answered}))
        terminal = Terminal([str(self.room.program)], self.room.work, self.room.environment({}))
        terminal.wait_for("\u276f", "the client's own prompt")
        terminal.press("do the work")
        terminal.wait_for("do the work", "what was typed")
        press = terminal.pressing("\r", 10.0)

        def is_asked() -> bool:
            press()
            return self.model.conversation != ""

        wait_until(is_asked, "the model to be asked")
        return terminal

    def run(self, *words: str) -> str:
        return self.start(*words).communicate(timeout=LONG_S)[0]

    def close(self) -> None:
        self.model.close()
        self.gateway.close()


@pytest.fixture
def hooked(server: RealServer, tmp_path: Path) -> Iterator[Hooked]:
    one = Hooked(server, tmp_path)
    one.bridge("--install", "--http", "--yes", "--session", SESSION)
    yield one
    one.close()


@pytest.fixture
def ann(hooked: Hooked) -> Person:
    return hooked.gateway.person()


async def test_rules_answer_and_what_ran_is_recorded(hooked: Hooked, ann: Person) -> None:
    kept = hooked.proof.with_name("kept")
    kept.touch()
    hooked.model.turns = [[bash(f"touch {hooked.proof}", "toolu_1")], [bash(f"rm {kept}", "toolu_2")]]
    assert "Done." in hooked.run("--allowedTools", "Bash")
    assert (hooked.proof.exists(), kept.exists(), hooked.model.results["toolu_2"][0]) == (True, True, True)
    rows = await ann.events(SESSION)
    assert [row["type"] for row in rows] == ["session_opened", "asked", "claimed", "tool_finished", "asked"]
    await ann.close()


async def test_a_person_answers(hooked: Hooked, ann: Person) -> None:
    hooked.model.turns = [[bash(f"mkdir {hooked.proof}", "toolu_1")]]
    process = hooked.start()
    await ann.answer_next(SESSION, "once")
    process.communicate(timeout=LONG_S)
    assert hooked.proof.is_dir()
    await ann.close()


async def test_a_client_that_is_killed_withdraws_its_request(hooked: Hooked, ann: Person) -> None:
    hooked.model.turns = [[bash(f"mkdir {hooked.proof}", "toolu_1")]]
    process = hooked.start()
    await ann.waiting(SESSION)
    process.kill()
    process.communicate(timeout=LONG_S)

    async def gone() -> bool:
        return await ann.pending(SESSION) == []

    await wait_until_async(gone, "the request to be withdrawn", 20)
    await ann.close()


@pytest.mark.parametrize(("key", "reply"), [("", "once"), ("\r", "once"), ("\x1b", "reject")])
async def test_at_a_terminal_the_prompt_and_the_inbox_ask_at_once(
    hooked: Hooked, ann: Person, key: str, reply: str
) -> None:
    hooked.model.turns = [[bash(f"mkdir {hooked.proof}", "toolu_1")]]
    terminal = hooked.sit_down()
    [shown] = await ann.waiting(SESSION)
    terminal.wait_for("Do you want to proceed?", "the client's question")
    if not key:
        await ann.reply(SESSION, shown["request_id"], reply)
    press = terminal.pressing(key or "x", 3.0)

    async def ended() -> list[str]:
        if key:
            press()
        found = [row for row in await ann.events(SESSION) if row["type"] in ("replied", "cancelled")]
        return [row["event"].get("reply") or row["event"]["detail"]["reason"].rpartition(": ")[2] for row in found]

    assert await wait_until_async(ended, "the end of the request", 30) == [reply]
    if reply == "once":
        await wait_until_async(hooked.proof.exists, "the tool to run", 30)
    assert (hooked.proof.exists(), await ann.pending(SESSION)) == (reply == "once", [])
    terminal.close()
    await ann.close()


def test_without_the_gateway_every_call_is_blocked(hooked: Hooked) -> None:
    hooked.gateway.kill9()
    hooked.model.turns = [[bash(f"touch {hooked.proof}", "toolu_1")]]
    hooked.run("--allowedTools", "Bash")
    failed, text = hooked.model.results["toolu_1"]
    assert (failed, "onFailure" in text, hooked.proof.exists()) == (True, True, False)


def test_an_older_client_is_refused_and_noticed(hooked: Hooked) -> None:
    assert "asks the gateway at" in hooked.bridge("--status").out
    assert "is Claude Code 2.1.197" in hooked.bridge("--status", client="claude-older", code=11).out
    assert "leave out --http" in hooked.bridge("--install", "--http", "--yes", client="claude-older", code=12).err
