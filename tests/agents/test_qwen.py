"""Journeys of the real Qwen Code with the hook: in scripts, and in an editor. Behind the bridge it is in test_acp_agents.py."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agents.acp_agents import AGENTS, CALL, beside
from tests.agents.editor import Editor
from tests.agents.rpc_client import LONG_S, Home, RpcClient, hook_command, start_program
from tests.support.gateways import RunningGateway

pytestmark = [pytest.mark.agents("qwen"), pytest.mark.timeout(240)]

QWEN = AGENTS["qwen"]
ALONE = ("--approval-mode", "yolo")
"""Settings in which only the hook protects the machine from the model."""


class Hooked:
    """Qwen Code with the hook installed in a scope's settings, and a model that runs `touch proof`, then `touch second`."""

    def __init__(self, folder: Path, gateway: RunningGateway, program: Path) -> None:
        self.program = program
        self.home = Home(folder)
        self.model = QWEN.model(QWEN.run("touch proof"))
        place = {"PERMISSION_LEDGER_HOME": str(gateway.home)}
        self.environment = beside(program, {**QWEN.environment(self.home, self.model.url), **place})

    def command(self, *words: str) -> str:
        return hook_command("qwen", self.home, self.environment, *words)

    def start(self) -> asyncio.Future[int]:
        """Run a script to its end."""

        def run() -> int:
            with start_program(
                [str(self.program), *ALONE, "-p", "do the work"], self.home, self.environment
            ) as running:
                running.communicate(timeout=LONG_S)
            return running.returncode

        return asyncio.ensure_future(asyncio.to_thread(run))

    def made(self, name: str) -> bool:
        return (self.home.work / name).exists()


@pytest.fixture
def hooked(tmp_path: Path, gateway: RunningGateway, program: Path) -> Iterator[Hooked]:
    found = Hooked(tmp_path, gateway, program)
    yield found
    found.model.close()


@pytest.mark.parametrize("reply", ["once", "reject"])
async def test_the_hook_asks_with_the_exact_input_and_a_rejects_words_reach_the_model(
    hooked: Hooked, gateway: RunningGateway, reply: str
) -> None:
    hooked.command("--install", "--yes", "--session", "hooked")
    running = hooked.start()
    ann = gateway.person()
    await ann.answer_next("hooked", reply, message="use the staging folder")
    await running
    assert hooked.made("proof") is (reply == "once")
    assert ("use the staging folder" in hooked.model.results[CALL]) is (reply == "reject")
    [asked] = [row["event"] for row in await ann.events("hooked") if row["type"] == "asked"]
    assert (asked["permission"], asked["tool_name"], asked["tool"]["call_id"]) == ("bash", "bash", CALL)
    assert (asked["detail"]["input"]["command"], asked["detail"]["cwd"]) == ("touch proof", str(hooked.home.work))
    assert asked["detail"]["always"] == ["touch *"]
    await ann.close()


@pytest.mark.parametrize("scope", ["user", "project"])
async def test_an_installed_hook_runs_and_after_uninstalling_it_does_not(
    hooked: Hooked, gateway: RunningGateway, scope: str
) -> None:
    folder = hooked.home.folder / "home" if scope == "user" else hooked.home.work
    there = folder / ".qwen" / "settings.json"
    hooked.command("--install", "--yes", "--scope", scope, "--session", "hooked")
    assert f"{there}: installed for PreToolUse" in hooked.command("--status")
    running = hooked.start()
    ann = gateway.person()
    await ann.answer_next("hooked", "reject")
    await running
    assert not hooked.made("proof")
    hooked.command("--uninstall", "--yes", "--scope", scope)
    assert "run.py qwen" not in (there.read_text() if there.exists() else "")
    hooked.model.say_next(QWEN.run("touch second"))
    await hooked.start()
    assert (hooked.made("second"), await ann.pending("hooked")) == (True, [])
    await ann.close()


async def test_in_an_editor_the_hook_asks_alone_and_a_rejects_words_reach_the_model(
    hooked: Hooked, gateway: RunningGateway
) -> None:
    hooked.command("--install", "--yes", "--session", "hooked")
    client = RpcClient([str(hooked.program), "--acp", *ALONE], hooked.home, hooked.environment)
    editor = Editor(client, hooked.model, hooked.home)
    ann = gateway.person()
    await ann.answer_next("hooked", "reject", message="use the staging folder")
    await asyncio.to_thread(editor.stop_reason)
    client.close()
    assert not hooked.made("proof")
    assert "use the staging folder" in json.dumps(hooked.model.results)
    await ann.close()


async def test_without_a_gateway_nothing_runs(hooked: Hooked, gateway: RunningGateway) -> None:
    hooked.command("--install", "--yes", "--grace", "0")
    gateway.kill9()
    await hooked.start()
    assert (hooked.made("proof"), "nobody could be asked" in hooked.model.results[CALL]) == (False, True)
