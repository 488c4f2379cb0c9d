"""Journeys of the real claude-agent-sdk, with the pinned Claude Code below it and our callback above."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.agents import frameworks
from tests.agents.anthropic_model import Model, bash
from tests.agents.claude_client import LONG_S, Room
from tests.agents.installing import INSTALL_SECONDS
from tests.support.gateways import RunningGateway
from tests.support.processes import ROOT

pytestmark = [pytest.mark.agents("claude", frameworks.NAME), pytest.mark.timeout(INSTALL_SECONDS)]

PROGRAM: Final = ROOT / "tests/agents/sdk_program.py"
SESSION: Final = "ses_sdk"


class Host:
    """The program, in a room of its own."""

    def __init__(self, room: Room, gateway: RunningGateway) -> None:
        self.room = room
        self._gateway = gateway
        self._process: subprocess.Popen[str] | None = None

    def start(self, *commands: str, **options: Any) -> None:
        """Start a run in which the model gives one command a turn; `options` are those of the callback."""
        self.room.model.turns = [[bash(command, f"toolu_{index}")] for index, command in enumerate(commands)]
        said = {"cli": str(self.room.program), "options": {"session": SESSION, "cwd": str(self.room.work), **options}}
        places = {
            "PERMISSION_LEDGER_HOME": str(self._gateway.home),
            "PYTHONPATH": f"{ROOT}:{frameworks.installed()}",
        }
        self._process = subprocess.Popen(
            [sys.executable, str(PROGRAM), json.dumps(said)],
            cwd=self.room.work,
            env=self.room.environment(places),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def interrupt(self) -> None:
        assert self._process
        assert self._process.stdin
        self._process.stdin.write("interrupt\n")
        self._process.stdin.flush()

    def ended(self) -> str:
        """Return how the turn ended, in the client's word."""
        assert self._process
        out, complaint = self._process.communicate(timeout=LONG_S)
        assert self._process.returncode == 0, complaint
        return out.strip()

    def made(self) -> list[str]:
        """Return the files that the commands made."""
        return sorted(path.name for path in self.room.work.iterdir())

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()


@pytest.fixture
def host(tmp_path: Path, program: Path, gateway: RunningGateway) -> Iterator[Host]:
    model = Model([])
    host = Host(Room(tmp_path, program, model), gateway)
    yield host
    host.close()
    model.close()


async def test_rules_and_people_decide_and_the_model_reads_why(
    host: Host, gateway: RunningGateway, tmp_path: Path
) -> None:
    rules = tmp_path / "rules.json"
    rules.write_text(json.dumps({"permissions": {"allow": ["Bash(touch *)"], "deny": ["Bash(rm *)"]}}))
    host.start("touch allowed", "rm allowed", "mkdir rejected", rules=str(rules))
    ann = gateway.person()
    await ann.answer_next(SESSION, "reject", message="use the other folder")
    assert host.ended() == "success"
    told = host.room.model.results
    assert [told[f"toolu_{index}"][0] for index in range(3)] == [False, True, True]
    assert told["toolu_1"][1] == "Permission to use Bash with command rm allowed has been denied."
    assert "use the other folder" in told["toolu_2"][1]
    assert host.made() == ["allowed"]
    await ann.close()


async def test_what_runs_is_the_input_as_a_person_corrected_it(host: Host, gateway: RunningGateway) -> None:
    host.start("touch asked")
    ann = gateway.person()
    corrected = {"command": "touch corrected", "description": "work"}
    shown = await ann.answer_next(SESSION, "once", updated_input=corrected)
    assert host.ended() == "success"
    assert (shown["input"]["command"], shown["always"]) == ("touch asked", ["Bash(touch asked *)"])
    assert host.made() == ["corrected"]
    await ann.close()


@pytest.mark.parametrize("share_grants", [False, True])
async def test_what_was_granted_for_the_session_is_asked_no_more_by_a_client_that_is_told(
    host: Host, gateway: RunningGateway, *, share_grants: bool
) -> None:
    host.start("touch proof", "touch proof", share_grants=share_grants)
    ann = gateway.person()
    await ann.answer_next(SESSION, "session")
    assert host.ended() == "success"
    asked = [row["event"]["request_id"] for row in await ann.events(SESSION) if row["type"] == "asked"]
    assert asked == (["toolu_0"] if share_grants else ["toolu_0", "toolu_1"])
    assert [failed for failed, _ in host.room.model.results.values()] == [False, False]
    await ann.close()


async def test_an_interrupt_withdraws_what_the_callback_asks(host: Host, gateway: RunningGateway) -> None:
    host.start("touch proof")
    ann = gateway.person()
    await ann.waiting(SESSION)
    host.interrupt()
    assert host.ended() == "error_during_execution"
    ended = [row["event"] for row in await ann.events(SESSION) if row["type"] == "cancelled"]
    assert [(one["request_id"], one["cause"]) for one in ended] == [("toolu_0", "asker_gave_up")]
    assert host.made() == []
    await ann.close()
