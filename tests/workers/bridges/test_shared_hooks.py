"""Hooks in settings that a team commits: they hold nothing of one machine, and a missing command is reported."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.forks import run
from tests.support.gateways import RunningGateway
from tests.support.processes import ROOT
from tests.workers.bridges.test_hooks_of_others import codex, gemini, qwen

FILES: Final = {
    "claude": ".claude/settings.json",
    "codex": ".codex/hooks.json",
    "gemini": ".gemini/settings.json",
    "qwen": ".qwen/settings.json",
}
CLAUDE: Final = {"session_id": "7f3a", "hook_event_name": "PreToolUse", "tool_use_id": "call_a", "tool_name": "Bash"}
EVENTS: Final[dict[str, dict[str, Any]]] = {
    "claude": {**CLAUDE, "tool_input": {"command": "ls src"}},
    "codex": codex("ls src"),
    "gemini": gemini("run_shell_command", command="ls src"),
    "qwen": qwen("run_shell_command", command="ls src"),
}
ASKED: Final = {"claude": "PreToolUse", "codex": "PermissionRequest", "gemini": "BeforeTool", "qwen": "PreToolUse"}

PLACES: Final = {"claude": "CLAUDE_PROJECT_DIR", "gemini": "GEMINI_PROJECT_DIR", "qwen": "GEMINI_PROJECT_DIR"}
"""The variable in which an agent gives its hooks the project's folder. Qwen Code sets this one for what was Gemini's."""


class Project:
    """A folder that a team shares, and one of its machines, whose programs stand in `bin`."""

    def __init__(self, agent: str, folder: Path, gateway: RunningGateway) -> None:
        self.agent = agent
        self.folder = folder / "shop"
        self.folder.mkdir()
        self.bin = folder / "bin"
        self.bin.mkdir()
        self.environment = {
            **gateway.environment,
            "HOME": str(folder),
            "CODEX_HOME": "",
            "PATH": f"{self.bin}:/usr/bin:/bin",
        }

    @property
    def settings(self) -> Path:
        return self.folder / FILES[self.agent]

    def install(self, *words: str, code: int = 0) -> str:
        command = ["bridge", self.agent, "--install", "--yes", "--scope", "project", *words]
        return self.command(*command, code=code)

    def command(self, *words: str, code: int = 0) -> str:
        done = run(words, env=self.environment, cwd=self.folder)
        assert done.returncode == code, done
        return done.stdout + done.stderr

    def line(self, event: str | None = None) -> str:
        [entry] = json.loads(self.settings.read_text())["hooks"][event or ASKED[self.agent]]
        line: str = entry["hooks"][0]["command"]
        return line

    def run(self, line: str) -> subprocess.CompletedProcess[str]:
        """As an agent that works in a folder of the project does."""
        below = self.folder / "src"
        below.mkdir(exist_ok=True)
        named = PLACES.get(self.agent)
        return subprocess.run(
            line,
            shell=True,
            cwd=self.folder if named is None else below,
            env=self.environment | ({} if named is None else {named: str(self.folder)}),
            input=json.dumps(EVENTS[self.agent]),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def add_program(self) -> None:
        program = self.bin / "permission-ledger"
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m workers.cli "$@"\n')
        program.chmod(0o755)


@pytest.fixture(params=list(FILES))
def project(request: pytest.FixtureRequest, tmp_path: Path, gateway: RunningGateway) -> Project:
    return Project(request.param, tmp_path, gateway)


def test_nothing_of_one_machine_stands_in_what_a_team_commits(project: Project) -> None:
    (project.folder / "rules.json").write_text("{}")
    project.install("--rules", str(project.folder / "rules.json"))
    text = project.settings.read_text()
    for own in (sys.executable, sys.prefix, str(ROOT), str(project.folder), project.environment["HOME"]):
        assert own not in text
    untrusted = 11 if project.agent == "codex" else 0
    assert "installed for" in project.command("bridge", project.agent, "--status", code=untrusted)
    project.command("bridge", project.agent, "--uninstall", "--yes", "--scope", "project")
    assert not project.settings.exists()


@pytest.mark.parametrize(("words", "code"), [((), 2), (("--on-unreachable", "agent"), 1)], ids=["deny", "agent"])
def test_who_lacks_the_command_is_told_in_one_line_what_to_install(
    project: Project, words: tuple[str, ...], code: int
) -> None:
    project.install(*words)
    ran = project.run(project.line())
    meanwhile = "every tool call is blocked" if code == 2 else "this call is left to the agent"
    told = f"permission-ledger is not installed here, so {meanwhile}: install it from its repository or wheel\n"
    assert (ran.returncode, ran.stdout, ran.stderr) == (code, "", told)


def test_who_has_the_command_is_asked_by_the_rules_of_the_project(project: Project) -> None:
    project.add_program()
    rules = (
        {"permissions": {"allow": ["Bash(ls:*)"]}}
        if project.agent == "claude"
        else {"permission": {"bash": {"ls *": "allow"}}}
    )
    (project.folder / "rules.json").write_text(json.dumps(rules))
    project.install("--rules", "rules.json")
    ran = project.run(project.line())
    assert (ran.returncode, '"allow"' in ran.stdout) == (0, True), ran


def test_rules_that_others_do_not_have_are_refused(project: Project, tmp_path: Path) -> None:
    (tmp_path / "mine.json").write_text("{}")
    said = project.install("--rules", str(tmp_path / "mine.json"), code=12)
    assert "outside the project, where others do not have them; put them into the project" in said
    assert not project.settings.exists()


def test_at_the_end_of_a_turn_a_command_that_is_missing_blocks_nothing(tmp_path: Path, gateway: RunningGateway) -> None:
    project = Project("claude", tmp_path, gateway)
    project.install()
    assert project.run(project.line("Stop")).returncode == 0
