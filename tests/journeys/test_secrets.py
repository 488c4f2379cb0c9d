"""A secret in a command, from an agent's hook to every place that keeps or shows what was asked: in none of them."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from redis.asyncio import Redis

from tests.support.gateways import RunningGateway
from tests.support.processes import ROOT
from workers.bridges.hook_entries import AGENT, own_line

if TYPE_CHECKING:
    from tests.support.servers import RealServer, StartServer

GITHUB = "ghp" + "_Zz9Yy8Xx7Ww6Vv5Uu4Tt3Ss2Rr1Qq0Pp9Oo8N"
PASSWORD = "correct-horse-77"
SECRETS = (GITHUB, PASSWORD)
OWN = {"command": f"curl -u ann:{PASSWORD} -H 'X-Api-Key: {GITHUB}' https://api.example.com/v1", "timeout": 600}


@pytest.fixture
def server(start_server: StartServer) -> RealServer:
    """A server that keeps all on a disk, which the test then searches."""
    return start_server("kept", options={"appendonly": "yes", "appendfsync": "always", "rdbcompression": "no"})


def hook(gateway: RunningGateway, rules: Path, tool_input: dict[str, Any], call_id: str) -> subprocess.Popen[str]:
    environment = {**gateway.environment}
    environment.pop("PYTHONPATH")
    process = subprocess.Popen(
        own_line(AGENT, ["--rules", str(rules)]),
        shell=True,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdin
    said = {"session_id": "s1", "cwd": "/tmp", "hook_event_name": "PreToolUse", "permission_mode": "default"}
    call = {"tool_name": "Bash", "tool_input": tool_input, "tool_use_id": call_id}
    process.stdin.write(json.dumps({**said, **call}))
    process.stdin.close()
    process.stdin = None
    return process


def decided(process: subprocess.Popen[str]) -> dict[str, Any]:
    out, _ = process.communicate(timeout=60)
    said: dict[str, Any] = json.loads(out)["hookSpecificOutput"]
    return said


def command(server: RealServer, *words: str) -> str:
    run = [sys.executable, "-m", "workers.cli", *words, "--url", server.url]
    return subprocess.run(run, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True).stdout


async def test_a_secret_of_a_hooks_command_is_nowhere_and_the_agent_runs_its_own_bytes(
    server: RealServer, gateway: RunningGateway, tmp_path: Path
) -> None:
    rules = tmp_path / "rules.json"
    # A rule of the secret itself shows that the raw command was judged. Rules stay in the log as they are.
    rules.write_text(json.dumps({"permissions": {"deny": [f"Bash(echo *{GITHUB[-6:]})"]}}))
    denied = decided(await asyncio.to_thread(hook, gateway, rules, {"command": f"echo {GITHUB}"}, "toolu_0"))
    assert denied["permissionDecision"] == "deny"

    asking = hook(gateway, rules, OWN, "toolu_1")
    ann = gateway.person()
    (row,) = await ann.waiting("s1")
    shown = [json.dumps(row), json.dumps(await ann.events("s1"))]
    edited = {**(await ann.pending("s1"))[0]["input"], "timeout": 5}
    assert "{secret:github:" in edited["command"]
    await ann.reply("s1", row["request_id"], "once", updated_input=edited)
    allowed = await asyncio.to_thread(decided, asking)
    assert (allowed["permissionDecision"], allowed["updatedInput"]) == ("allow", {**OWN, "timeout": 5})

    again = hook(gateway, rules, OWN, "toolu_2")
    await ann.answer_next("s1", "reject", message=f"not with {GITHUB}")
    assert (await asyncio.to_thread(decided, again))["permissionDecision"] == "deny"
    shown += [json.dumps(await ann.events("s1")), json.dumps(await ann.outcome("s1", "toolu_2"))]
    page = urllib.request.Request(f"{gateway.page_url}/v1/sessions/s1/timeline")
    page.add_header("Authorization", f"Bearer {gateway.token()}")
    shown.append(await asyncio.to_thread(lambda: urllib.request.urlopen(page).read().decode()))
    await ann.close()

    command(server, "rebuild")
    exported = tmp_path / "export.jsonl"
    shown += [command(server, "export", "--all", "--out", str(exported)), exported.read_text()]
    shown += [command(server, *words) for words in (("log", "s1"), ("show", "s1"), ("log", "s1", "--json"))]
    async with Redis.from_url(server.url) as client:
        await client.save()
    shown.append((gateway.home / "log").read_text())
    server.stop()
    kept = [path for path in server.folder.rglob("*") if path.is_file()]
    assert any("aof" in path.name for path in kept)
    assert any(path.suffix == ".rdb" for path in kept)
    for secret in SECRETS:
        assert not [text[:200] for text in shown if secret in text]
        assert not [path for path in kept if secret.encode() in path.read_bytes()]
