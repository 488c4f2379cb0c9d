"""Three projects of one person, and one `up`: each project's hooks, bridges and shell are judged by its own rules."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ledger.stores.embedded import stop
from tests.journeys.processes import Process
from tests.support.command_line import CommandLine, Ran
from tests.support.processes import free_port
from tests.support.waiting import wait_until
from workers.bridges.hook_entries import own_line

pytestmark = pytest.mark.process

ALLOWS = {"permissions": {"allow": ["Bash(git status *)"]}}
DENIES = {"permissions": {"deny": ["Bash(git status *)"], "allow": ["Bash(git log *)"]}}
OPENCODE = {"permission": {"bash": {"*": "ask", "git status*": "deny", "git log*": "allow"}}}


class Laptop:
    """A person's machine with three projects, each set up by `init`."""

    def __init__(self, folder: Path) -> None:
        self.home = folder
        self.data = folder / ".local" / "share" / "permission-ledger"
        self.environment = {"HOME": str(folder), "XDG_CONFIG_HOME": "", "XDG_DATA_HOME": ""}
        self._calls = 0

    def run(self, project: str, *words: str, code: int | None = None, **environment: str) -> Ran:
        return CommandLine("", self.environment, self.home / project)(*words, code=code, **environment)

    def project(self, name: str, agent: str, file: str, rules: Any) -> Path:
        path = self.home / name / file
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(rules))
        self.run(name, "init", "--agent", agent, "--yes", code=0)
        return path

    def up(self, project: str) -> Process:
        program = f"import os, sys, workers.cli; os.chdir({str(self.home / project)!r}); sys.exit(workers.cli.main())"
        return Process(["-c", program, "up", "--listen", f"127.0.0.1:{free_port()}"], self.environment)

    def hook(self, agent: str, project: str, command: str, *, session: str | None = None, **env: str) -> str:
        """Return what the agent is told about a call, by the very line that is installed."""
        self._calls += 1
        name = {"claude": "PreToolUse", "qwen": "PreToolUse", "codex": "PreToolUse", "gemini": "BeforeTool"}[agent]
        tool = {"claude": "Bash", "codex": "Bash"}.get(agent, "run_shell_command")
        event = {
            "session_id": session or f"{agent}-{project}",
            "turn_id": "t",
            "hook_event_name": name,
            "cwd": str(self.home / project),
            "tool_name": tool,
            "tool_input": {"command": command},
            "tool_use_id": f"call_{self._calls}",
            "tool_call_id": f"call_{self._calls}",
            "permission_mode": "default",
        }
        line = CommandLine("", {**self.environment, **env}, self.home / project)
        done = subprocess.run(
            own_line(agent, ["--limit", "2", "--grace", "0"]),
            shell=True,
            cwd=line.folder,
            env=line.environment,
            input=json.dumps(event),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return done.stdout + done.stderr


@pytest.fixture
def laptop(tmp_path: Path) -> Iterator[Laptop]:
    laptop = Laptop(tmp_path / "ann")
    laptop.home.mkdir()
    yield laptop
    stop(laptop.data)


@pytest.fixture
def running(laptop: Laptop) -> Iterator[Process]:
    laptop.project("first", "claude", ".claude/settings.json", ALLOWS)
    laptop.project("second", "claude", ".claude/settings.json", DENIES)
    laptop.project("third", "opencode", "opencode.json", OPENCODE)
    running = laptop.up("first")
    running.wait_for_word("Ctrl-C ends it")
    wait_until((laptop.data / "gateway.json").exists, "the gateway to be announced", 60)
    yield running
    running.close()


@pytest.mark.usefixtures("running")
def test_each_project_is_judged_by_its_own_rules_until_they_are_changed(laptop: Laptop) -> None:
    assert '"allow"' in laptop.hook("claude", "first", "git status --short")
    assert "has been denied" in laptop.hook("claude", "second", "git status --short")
    assert '"allow"' in laptop.hook("claude", "second", "git log -1")
    for agent in ("codex", "gemini", "qwen"):
        assert "prevents you from using" in laptop.hook(agent, "third", "git status --short")
        assert "deny" not in laptop.hook(agent, "third", "git log -1")

    # The shell: `ask` in this process, and `run` at the gateway, in a session of the folder's project.
    call = ["--dialect", "claude", "--tool", "Bash", "--input", '{"command": "git status --short"}']
    assert laptop.run("second", "ask", "ses_shell", *call, code=3).out
    assert laptop.run("first", "ask", "ses_other", *call, code=0).out
    words = ["--dialect", "claude", "--", "git", "status", "--short"]
    assert laptop.run("second", "run", "ses_run", *words).code == 3
    other = laptop.run("first", "ask", "ses_shell", *call)
    assert (other.code, "use another session" in other.err) == (12, True)

    # Another content counts within the next call, and no more than its denies do.
    rules = laptop.home / "second" / ".claude" / "settings.json"
    rules.write_text(json.dumps({"permissions": {"allow": ["Bash"], "deny": ["Bash(git log *)"]}}))
    assert "has been denied" in laptop.hook("claude", "second", "git log -1")
    assert "still pending" in laptop.hook("claude", "second", "git status --short")
    found = laptop.run("first", "doctor", "--json", code=11).rows
    [trust] = [row for row in found if row["check"] == "trust"]
    assert (trust["ok"], str(rules) in trust["text"]) == (False, True)
    assert f"permission-ledger config trust {laptop.home}/second" in trust["hint"]
    laptop.run("second", "config", "trust", "--yes", code=0)
    assert '"allow"' in laptop.hook("claude", "second", "git status --branch")
    assert [row["ok"] for row in laptop.run("first", "doctor", "--json").rows if row["check"] == "trust"] == [True]

    # The rules of the project in which `up` was started are no exception.
    (laptop.home / "first" / ".claude" / "settings.json").write_text(json.dumps({"permissions": {"allow": ["Bash"]}}))
    assert "still pending" in laptop.hook("claude", "first", "git status --short")


@pytest.mark.usefixtures("running")
def test_a_hook_whose_user_trusts_what_the_gateway_does_not_have_refuses(laptop: Laptop) -> None:
    elsewhere = laptop.home / "elsewhere"
    laptop.run("second", "config", "trust", "--yes", code=0)
    other = {"XDG_CONFIG_HOME": str(elsewhere)}
    (laptop.home / "second" / "permission-ledger.toml").write_text('rules = ["claude=.claude/settings.json"]\n')
    laptop.run("second", "config", "trust", "--yes", code=0, **other)
    told = laptop.hook("claude", "second", "git log -1", **other)
    assert "the rules that you trusted for this project do not judge here" in told
    assert "permission-ledger config trust" in told
    assert '"allow"' not in told
