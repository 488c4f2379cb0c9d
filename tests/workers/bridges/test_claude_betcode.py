"""betcode.md: the daemon's lines to Claude's standard input, as written in the scenarios.

An allow also carries `updatedInput`, without which today's client takes it for a fault and denies (deviations).
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from ledger.testing import TestClock
from tests.support.forks import Fork
from tests.support.gateways import Person, RunningGateway
from tests.support.processes import ROOT
from workers.transport.gateway_client import GatewayClient

BRIDGE: Final = ("bridge", "claude", "--dialect", "betcode")
STDIO: Final = ("--input-format", "stream-json", "--permission-prompt-tool", "stdio")

# It asks, tells what is written to its standard input, and ends when that is closed.
CLIENT: Final = "import sys\nprint(sys.argv[1], flush=True)\nfor line in sys.stdin: print(line, end='', flush=True)"

RULES: Final = {"permissions": {"allow": ["Read", "Bash(git *)"], "deny": ["Bash(git push --force)"]}}

Claude = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def claude(gateway: RunningGateway, tmp_path: Path) -> Iterator[Claude]:
    """A client that emits one control_request, in session `sess_001`."""
    started: list[subprocess.Popen[bytes]] = []
    rules = tmp_path / "rules.json"
    rules.write_text(json.dumps(RULES))

    def emit(request_id: str, tool_name: str, tool_input: dict[str, Any]) -> subprocess.Popen[bytes]:
        request = {"subtype": "can_use_tool", "tool_name": tool_name, "input": tool_input, "tool_use_id": request_id}
        line = json.dumps({"type": "control_request", "request_id": request_id, "request": request})
        options = ("--session", "sess_001", "--project", "betcode", "--rules", str(rules))
        process: subprocess.Popen[bytes] = Fork(
            [*BRIDGE, *options, "--", sys.executable, "-c", CLIENT, line, *STDIO],
            cwd=ROOT,
            env=gateway.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        started.append(process)
        return process

    yield emit
    for process in started:
        process.kill()
        process.communicate()


def written(process: subprocess.Popen[bytes]) -> Any:
    """The next line on the client's standard input."""
    assert process.stdout
    return json.loads(process.stdout.readline())


def response(request_id: str, answer: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "control_response",
        "response": {"subtype": "success", "request_id": request_id, "response": answer},
    }


@pytest.mark.parametrize(
    ("request_id", "tool", "tool_input", "answer"),
    [
        ("req_001", "Read", {"file_path": str(ROOT / "README.md")}, {"behavior": "allow"}),
        ("req_002", "Bash", {"command": "git status"}, {"behavior": "allow"}),
        (
            "req_005",
            "Bash",
            {"command": "git push --force origin main"},
            {"behavior": "deny", "message": "Denied by rule: Bash(git push --force)"},
        ),
    ],
)
def test_what_a_rule_decides_is_written_as_the_scenario_spells_it(
    claude: Claude, request_id: str, tool: str, tool_input: dict[str, Any], answer: dict[str, Any]
) -> None:
    allowed = {"updatedInput": tool_input} if answer["behavior"] == "allow" else {}
    assert written(claude(request_id, tool, tool_input)) == response(request_id, {**answer, **allowed})


async def test_a_request_that_nobody_answers_in_time_is_denied_in_the_words_of_the_spec(
    claude: Claude, gateway: RunningGateway, ann: Person, clock: TestClock
) -> None:
    async with GatewayClient(gateway.agent_place) as client:
        timeouts = {"attended": "2s", "unattended": "2s"}
        await client.open_session("sess_001", project="betcode", dialect="betcode", timeouts=timeouts)
    expected = {"behavior": "deny", "message": "Permission request expired after 2 seconds."}
    process = claude("req_020", "Bash", {"command": "make"})
    await ann.waiting("sess_001")
    clock.advance("2s")
    assert written(process) == response("req_020", expected)


async def test_a_person_who_answers_twice_is_heard_once(claude: Claude, gateway: RunningGateway) -> None:
    process = claude("req_031", "Bash", {"command": "make"})
    ann = gateway.person()
    shown = await ann.answer_next("sess_001", "once")
    await ann.reply("sess_001", shown["request_id"], "once")
    await ann.close()
    assert written(process) == response("req_031", {"behavior": "allow", "updatedInput": {"command": "make"}})
    assert process.stdin
    process.stdin.close()
    process.stdin = None
    assert process.communicate(timeout=60)[0] == b""
