"""Journeys of the real Claude Code that asks by our installed hooks, or our MCP tool, without a bridge."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.agents.anthropic_model import Model, bash
from tests.agents.claude_client import LONG_S, Room
from tests.support.gateways import RunningGateway
from tests.support.processes import ROOT
from tests.support.waiting import wait_until_async
from workers.bridges.hook_entries import hook_settings

pytestmark = [pytest.mark.agents("claude", older="claude-older"), pytest.mark.timeout(180)]

COMMAND = (sys.executable, "-m", "workers.cli", "bridge", "claude")


class Plain:
    """`claude -p …`, without a host that answers."""

    def __init__(self, room: Room, gateway: RunningGateway, rules: Path) -> None:
        self.room = room
        # A client waits only briefly for an MCP server to start, which is slow on a busy machine.
        patience = {"MCP_TIMEOUT": "30000", "MCP_CONNECT_TIMEOUT_MS": "30000", "MCP_CONNECTION_NONBLOCKING": "0"}
        self.environment = room.environment({"PERMISSION_LEDGER_HOME": str(gateway.home), **patience})
        self.rules = rules
        self.proof = room.work / "proof"

    def start(self, *words: str, wrapper: Sequence[str] = ()) -> subprocess.Popen[str]:
        command = [*wrapper, str(self.room.program), "-p", "do the work", *words]
        return subprocess.Popen(
            command,
            cwd=self.room.work,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *words: str, wrapper: Sequence[str] = ()) -> str:
        out, complaint = self.start(*words, wrapper=wrapper).communicate(timeout=LONG_S)
        assert out, complaint
        return out

    def install(self, *words: str) -> None:
        command = [*COMMAND, "--install", "--yes", "--rules", str(self.rules), *words]
        subprocess.run(command, cwd=ROOT, env=self.environment, check=True, capture_output=True)


@pytest.fixture
def plain(tmp_path: Path, program: Path, gateway: RunningGateway) -> Iterator[Plain]:
    rules = tmp_path / "rules.json"
    rules.write_text(json.dumps({"permissions": {"allow": ["Bash(touch *)"], "deny": ["Bash(rm *)"]}}))
    model = Model([])
    yield Plain(Room(tmp_path, program, model), gateway, rules)
    model.close()


async def test_installed_hooks_let_run_what_our_rules_allow_and_record_what_ran(
    plain: Plain, gateway: RunningGateway
) -> None:
    plain.install()
    plain.room.model.turns = [[bash(f"touch {plain.proof}", "toolu_1")]]
    assert "Done." in plain.run()
    assert plain.proof.exists()
    found = json.loads(plain.run("--output-format", "json"))
    ann = gateway.person()
    rows = await ann.events(found["session_id"])
    assert [row["type"] for row in rows] == ["session_opened", "asked", "claimed", "tool_finished"]
    await ann.close()


def test_installed_hooks_deny_what_our_rules_deny(plain: Plain) -> None:
    plain.install()
    plain.proof.touch()
    plain.room.model.turns = [[bash(f"rm {plain.proof}", "toolu_1")]]
    plain.run("--allowedTools", "Bash")
    failed, text = plain.room.model.results["toolu_1"]
    assert (failed, "rm" in text, plain.proof.exists()) == (True, True, True)


async def test_a_person_answers_what_a_hook_asks(plain: Plain, gateway: RunningGateway) -> None:
    plain.install("--session", "ses_hooks")
    plain.room.model.turns = [[bash(f"mkdir {plain.proof}", "toolu_1")]]
    process = plain.start()
    ann = gateway.person()
    await ann.answer_next("ses_hooks", "once")
    process.communicate(timeout=LONG_S)
    assert plain.proof.is_dir()
    await ann.close()


async def test_a_client_that_is_killed_while_its_hook_asks_withdraws_the_request(
    plain: Plain, gateway: RunningGateway
) -> None:
    plain.install("--session", "ses_hooks")
    plain.room.model.turns = [[bash(f"mkdir {plain.proof}", "toolu_1")]]
    process = plain.start()
    ann = gateway.person()
    await ann.waiting("ses_hooks")
    process.kill()
    process.communicate(timeout=LONG_S)

    async def gone() -> bool:
        return await ann.pending("ses_hooks") == []

    await wait_until_async(gone, "the request to be withdrawn", 20)
    assert [row["type"] for row in await ann.events("ses_hooks")][-1] == "cancelled"
    await ann.close()


async def test_what_ran_and_failed_is_recorded_and_what_was_denied_is_not(
    plain: Plain, gateway: RunningGateway
) -> None:
    plain.install("--session", "ses_hooks")
    plain.room.model.turns = [[bash(f"touch {plain.proof}/x", "toolu_1")], [bash(f"rm {plain.proof}", "toolu_2")]]
    plain.run()
    ann = gateway.person()
    rows = await ann.events("ses_hooks")
    assert [(row["event"]["request_id"], row["event"]["ok"]) for row in rows if row["type"] == "tool_finished"] == [
        ("toolu_1", False)
    ]
    assert [row["event"]["verdict"] for row in rows if row["type"] == "asked"] == ["allow", "deny"]
    await ann.close()


async def test_what_was_not_asked_again_is_withdrawn_at_the_end_of_the_turn(
    plain: Plain, gateway: RunningGateway
) -> None:
    settings = {"hooks": hook_settings(["--session", "ses_hooks", "--limit", "1"])}
    (plain.room.config / "settings.json").write_text(json.dumps(settings))
    plain.room.model.turns = [[bash(f"mkdir {plain.proof}", "toolu_1")]]
    assert "Done." in plain.run()
    assert "still pending, ask again: " in plain.room.model.results["toolu_1"][1]
    ann = gateway.person()
    ended = [row["event"] for row in await ann.events("ses_hooks") if row["type"] == "cancelled"]
    assert [(one["request_id"], one["cause"], one["detail"]["reason"]) for one in ended] == [
        ("toolu_1", "asker_gave_up", "the turn ended before it was answered")
    ]
    await ann.close()


def test_without_a_gateway_installed_hooks_let_nothing_run(plain: Plain, gateway: RunningGateway) -> None:
    plain.install("--grace", "0")
    gateway.kill9()
    plain.room.model.turns = [[bash(f"touch {plain.proof}", "toolu_1")]]
    plain.run("--allowedTools", "Bash")
    failed, text = plain.room.model.results["toolu_1"]
    assert (failed, "nobody could be asked" in text, plain.proof.exists()) == (True, True, False)


def test_a_wrapped_command_without_stream_json_has_our_hooks_for_that_run(plain: Plain) -> None:
    plain.room.model.turns = [[bash(f"touch {plain.proof}", "toolu_1")]]
    assert "Done." in plain.run(wrapper=(*COMMAND, "--rules", str(plain.rules), "--"))
    assert plain.proof.exists()
    assert not (plain.room.config / "settings.json").exists()


def prompt_tool(plain: Plain, gateway: RunningGateway) -> list[str]:
    """Return the options with which the client asks our tool."""
    arguments = [*COMMAND[1:], "--prompt-tool", "--session", "ses_tool", "--rules", str(plain.rules)]
    environment = {"PYTHONPATH": str(ROOT), "PERMISSION_LEDGER_HOME": str(gateway.home)}
    server = {"command": COMMAND[0], "args": arguments, "env": environment}
    config = plain.room.folder / "mcp.json"
    config.write_text(json.dumps({"mcpServers": {"ledger": server}}))
    return ["--mcp-config", str(config), "--permission-prompt-tool", "mcp__ledger__approve"]


def test_the_prompt_tool_decides_for_a_client_without_a_host(plain: Plain, gateway: RunningGateway) -> None:
    other = plain.room.work / "other"
    plain.room.model.turns = [[bash(f"touch {plain.proof}", "toolu_1")], [bash(f"rm {other}", "toolu_2")]]
    other.touch()
    plain.run(*prompt_tool(plain, gateway))
    assert (plain.proof.exists(), other.exists()) == (True, True)
    assert plain.room.model.results["toolu_2"][0] is True


async def test_people_answer_what_the_prompt_tool_asks(plain: Plain, gateway: RunningGateway) -> None:
    asked, corrected = plain.room.work / "asked", plain.room.work / "corrected"
    plain.room.model.turns = [[bash(f"mkdir {asked}", "toolu_1")], [bash(f"mkdir {plain.proof}", "toolu_2")]]
    process = plain.start(*prompt_tool(plain, gateway))
    ann = gateway.person()
    first = await ann.answer_next("ses_tool", "once", updated_input={"command": f"mkdir {corrected}"})
    second = await ann.answer_next("ses_tool", "reject", message="one folder is enough")
    process.communicate(timeout=LONG_S)
    assert [row["request_id"] for row in (first, second)] == ["toolu_1", "toolu_2"]
    assert (asked.exists(), corrected.is_dir(), plain.proof.exists()) == (False, True, False)
    failed, text = plain.room.model.results["toolu_2"]
    assert (failed, "one folder is enough" in text) == (True, True)
    await ann.close()


async def test_a_client_that_is_killed_while_the_prompt_tool_asks_withdraws_the_request(
    plain: Plain, gateway: RunningGateway
) -> None:
    plain.room.model.turns = [[bash(f"mkdir {plain.proof}", "toolu_1")]]
    process = plain.start(*prompt_tool(plain, gateway))
    ann = gateway.person()
    await ann.waiting("ses_tool")
    process.kill()
    process.communicate(timeout=LONG_S)

    async def causes() -> list[str]:
        return [row["event"]["cause"] for row in await ann.events("ses_tool") if row["type"] == "cancelled"]

    assert await wait_until_async(causes, "the request to be withdrawn", 20) == ["asker_gave_up"]
    await ann.close()
