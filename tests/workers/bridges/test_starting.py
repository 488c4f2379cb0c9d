"""The start of each bridge, and a missing gateway: reported at once, once, and with the remedy."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.forks import Fork, run
from tests.support.gateways import RunningGateway
from tests.support.processes import ROOT, free_port
from tests.support.waiting import wait_until, wait_until_async
from workers.bridges.options import BridgeOptions
from workers.bridges.tool_calls import GatewayJudge, ToolCall
from workers.transport.gateway_client import GatewayClient, Outage
from workers.transport.place import ServerAddress, UnreachableError, parse_place, unreachable

AGENT: Final = [sys.executable, "-c", "pass"]
BRIDGES: Final = [
    ("acp", "--", *AGENT),
    ("codex", "--", *AGENT),
    ("codelia", "--", *AGENT),
    ("claude", "--", *AGENT),
    ("claude", "--", *AGENT, "--input-format", "stream-json", "--output-format", "stream-json"),
    ("opencode", "--", *AGENT, "--port", "4999"),
]
WAY_OUT: Final = "start the gateway with `permission-ledger up`, or set PERMISSION_LEDGER_GATEWAY"


def command(words: Sequence[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return run(words, env=environment)


def first_line(ran: subprocess.CompletedProcess[str]) -> str:
    return ran.stderr.splitlines()[0]


@pytest.mark.parametrize("words", BRIDGES, ids=lambda words: f"{words[0]}{len(words)}")
def test_a_bridge_says_at_its_start_what_it_found(
    words: tuple[str, ...], gateway: RunningGateway, tmp_path: Path
) -> None:
    rules = tmp_path / "rules.json"
    rules.write_text("{}")
    found = f"permission-ledger: gateway: `{gateway.address}`, found; ledger: found; rules: "
    assert first_line(command(["bridge", *words], gateway.environment)) == f"{found}the gateway's own"
    name, *rest = words
    ran = command(["bridge", name, "--rules", str(rules), *rest], gateway.environment)
    assert first_line(ran) == f"{found}`{rules}`, found"


@pytest.mark.usefixtures("no_gateway")
@pytest.mark.parametrize("words", BRIDGES, ids=lambda words: f"{words[0]}{len(words)}")
def test_a_bridge_says_at_its_start_that_the_gateway_is_away(words: tuple[str, ...], gateway: RunningGateway) -> None:
    away = first_line(command(["bridge", *words], gateway.environment))
    assert away.startswith("permission-ledger: gateway: not found, calls are denied: ")
    assert gateway.address in away
    assert WAY_OUT in away


@pytest.mark.parametrize(
    "words",
    [
        *(("bridge", name, "--rules", "nosuch.json", *rest) for name, *rest in BRIDGES),
        ("bridge", "claude", "--rules", "nosuch.json", "--install", "--yes"),
        *(
            ("bridge", name, "--rules", "nosuch.json", way)
            for name in ("codex", "gemini", "qwen")
            for way in ("--install", "--settings")
        ),
    ],
    ids=lambda words: " ".join([*words[:2], words[-1]]),
)
def test_rules_that_are_not_there_are_an_error_at_once(words: tuple[str, ...], tmp_path: Path) -> None:
    environment = {"PATH": "", "HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    ran = command(words, environment)
    assert ran.returncode == 12, ran.stderr
    assert "the rules `nosuch.json` cannot be read: no such file or directory" in ran.stderr
    assert list(tmp_path.rglob("*.json")) == []


@pytest.mark.parametrize(
    ("cause", "why"),
    [
        (FileNotFoundError(2, "No such file or directory"), "nothing listens at"),
        (ConnectionRefusedError(111, "Connection refused"), "nothing listens at"),
        (OSError("Multiple exceptions: [Errno 111] Connect call failed, refused"), "nothing listens at"),
        (TimeoutError(), "no answer came in time at"),
        (OSError(113, "No route to host"), "no route to host at"),
        (EOFError(), "the connection was lost at"),
    ],
)
def test_a_refusal_names_the_address_the_cause_and_the_way_out(cause: Exception, why: str) -> None:
    text = unreachable(cause, lambda: parse_place("unix:/run/ledger.sock", None))
    assert text.startswith(f"the permission ledger cannot be reached: {why} `unix:/run/ledger.sock`; ")
    assert WAY_OUT in text
    assert "Errno" not in text


def nowhere() -> ServerAddress:
    return ServerAddress(None, "127.0.0.1", free_port(), token=None)


async def test_one_grace_holds_for_all_that_is_asked_while_the_gateway_is_away() -> None:
    told: list[str] = []
    place = nowhere()
    async with GatewayClient(lambda: place, grace=1, tell=told.append) as client:
        judge = GatewayJudge(client, BridgeOptions(grace=1), "s", agent="a")
        with pytest.raises(UnreachableError):
            await judge.open()
        verdict = await judge.judge(ToolCall("r1", "bash", {"command": "ls"}))
    assert verdict.behaviour == "deny"
    assert WAY_OUT in verdict.message
    line = f"{unreachable(ConnectionRefusedError(), lambda: place)}; trying for 1 seconds"
    assert told == [line], "a second grace would be told of, too"


def test_the_first_line_comes_within_a_second_and_a_grace_that_is_over_is_not_begun_again() -> None:
    told: list[str] = []
    outage = Outage(2, told.append, nowhere)
    tries = [outage.lasts(now / 10, 0.1, EOFError()) for now in range(9)]
    assert (tries, len(told)) == ([True] * 9, 1)
    assert [outage.lasts(now, 0.1, EOFError()) for now in (1.8, 2.0, 2.1, 2.2)] == [True, False, False, False]
    assert len(told) == 1


@pytest.mark.usefixtures("no_gateway")
async def test_who_waits_for_a_gateway_is_told_while_it_is_away_and_when_it_is_back(gateway: RunningGateway) -> None:
    told: list[str] = []
    async with GatewayClient(gateway.agent_place, tell=told.append) as client:
        opening = asyncio.create_task(client.open_session("s"))
        await wait_until_async(lambda: told, "a line")
        assert not opening.done()
        await asyncio.to_thread(gateway.start)
        await opening
    assert told[-1] == "the permission ledger is reachable again"


def test_a_person_at_an_editor_sees_within_a_second_that_the_gateway_is_away(tmp_path: Path) -> None:
    asks: dict[str, Any] = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "session/request_permission",
        "params": {
            "sessionId": "s",
            "toolCall": {"toolCallId": "c", "kind": "execute", "title": "ls", "rawInput": {"command": "ls"}},
            "options": [{"optionId": "no", "kind": "reject_once", "name": "No"}],
        },
    }
    agent = [sys.executable, "-c", f"import sys; print({json.dumps(json.dumps(asks))}, flush=True); sys.stdin.read()"]
    errors = tmp_path / "errors"
    with errors.open("w") as stderr:
        running: subprocess.Popen[bytes] = Fork(
            ["bridge", "acp", "--", *agent],
            cwd=ROOT,
            env={"PYTHONPATH": str(ROOT), "HOME": str(tmp_path), "PATH": ""},
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
        )
        try:
            wait_until(lambda: "; trying for 30 seconds" in errors.read_text(), "the line")
        finally:
            running.kill()
            running.communicate()
    assert "no gateway is running here; start `permission-ledger up`" in errors.read_text()
