"""Two journeys in which all are processes as they are installed; other tests fork theirs from one that has all imported."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.gateways import RunningGateway
from tests.support.processes import ROOT
from tests.support.servers import RealServer
from tests.workers.bridges.recorded import PLAYER
from tests.workers.bridges.test_bridge_claude import BRIDGE, STDIO, Recording
from tests.workers.bridges.test_hook_claude import SESSION, event
from workers.bridges.hook_entries import AGENT, own_line


@pytest.fixture
def running(server: RealServer) -> Iterator[RunningGateway]:
    gateway = RunningGateway(server)
    try:
        gateway.start()
        yield gateway
    finally:
        gateway.close()


def start(line: str, gateway: RunningGateway, said: bytes) -> subprocess.Popen[bytes]:
    """Run a line in a shell, and write to it."""
    pipe = subprocess.PIPE
    process = subprocess.Popen(line, shell=True, cwd=ROOT, env=gateway.environment, stdin=pipe, stdout=pipe)
    assert process.stdin
    process.stdin.write(said)
    process.stdin.flush()
    return process


async def test_the_line_of_an_installed_hook_is_answered_by_a_person(running: RunningGateway, tmp_path: Path) -> None:
    rules = tmp_path / "rules.json"
    rules.write_text(json.dumps({"permissions": {"deny": ["Bash(rm *)"]}}))
    hook = start(own_line(AGENT, ["--rules", str(rules)]), running, json.dumps(event("git push")).encode())
    assert hook.stdin
    hook.stdin.close()
    hook.stdin = None
    ann = running.person()
    await ann.answer_next(SESSION, "once", updated_input={"command": "git push --dry-run"})
    said = json.loads(hook.communicate(timeout=60)[0])["hookSpecificOutput"]
    assert (hook.returncode, said["permissionDecision"]) == (0, "allow")
    assert said["updatedInput"] == {"command": "git push --dry-run"}
    await ann.close()


async def test_a_bridge_around_a_recorded_client_is_answered_by_a_person(running: RunningGateway) -> None:
    recording = Recording("allowed")
    words = [sys.executable, "-m", "workers.cli", *BRIDGE, "--", *PLAYER, str(recording.path), *STDIO]
    bridge = start(shlex.join(words), running, recording.from_host())
    ann = running.person()
    await ann.answer_next(recording.session, "once")
    out, _ = bridge.communicate(timeout=60)
    assert (bridge.returncode, out) == (0, recording.for_host())
    await ann.close()
