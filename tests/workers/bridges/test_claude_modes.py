"""Modes in which Claude Code asks nobody: they are reported, and refused with --require-asking."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.command_line import CommandLine
from tests.workers.bridges.test_bridge_claude import RECORDED, Recording, Start, ended, play, start
from workers.bridges.claude.bridge import asking
from workers.transport.place import BridgeError

__all__ = ["start"]

CHANGE = {"type": "control_request", "request_id": "m1", "request": {"subtype": "set_permission_mode", "mode": "auto"}}


def test_a_client_that_starts_in_a_mode_without_questions_is_told_of(start: Start, tmp_path: Path) -> None:
    text = (RECORDED / "allowed.jsonl").read_text()
    assert '\\"permissionMode\\":\\"default\\"' in text
    changed = text.replace('\\"permissionMode\\":\\"default\\"', '\\"permissionMode\\":\\"auto\\"')
    recording = Recording("allowed")
    recording.path = tmp_path / "auto.jsonl"
    recording.path.write_text(changed)
    process = play(start, recording, "--grace", "0")
    assert process.stderr
    said = next(line for line in process.stderr if b"mode" in line)
    assert b"is in mode `auto`" in said
    assert b"--require-asking" in said


def test_a_host_that_wants_a_mode_without_questions_is_refused_it(start: Start) -> None:
    process = start("cat", options=("--require-asking",))
    assert process.stdin
    assert process.stdout
    process.stdin.write(json.dumps(CHANGE).encode() + b"\n")
    process.stdin.flush()
    told = json.loads(process.stdout.readline())["response"]
    assert (told["subtype"], told["request_id"], "no mode `auto`" in told["error"]) == ("error", "m1", True)
    process.stdin.close()
    process.stdin = None
    ended(process)


def test_a_command_is_started_in_a_mode_that_asks() -> None:
    assert asking(["claude", "-p"]) == ("claude", "--permission-mode", "default", "-p")
    assert asking(["claude", "--permission-mode", "plan"]) == ("claude", "--permission-mode", "plan")
    for words in (["--permission-mode", "auto"], ["--permission-mode=auto"], ["--dangerously-skip-permissions"]):
        with pytest.raises(BridgeError, match="leave one of them out"):
            asking(["claude", *words])


def test_requiring_questions_goes_with_a_command() -> None:
    assert (
        "goes with a COMMAND"
        in CommandLine("memory://")("bridge", "claude", "--install", "--require-asking", code=2).err
    )
