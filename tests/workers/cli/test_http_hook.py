"""`bridge claude --install --http`: for whom it is offered, what it writes, and what `--status` and `doctor` notice."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ledger import Ledger
from ledger.access.state import Token
from tests.support.command_line import CommandLine, Ran
from tests.support.gateways import ForkedGateway
from tests.support.servers import RealServer
from workers.bridges.hook_entries import TOKEN_VARIABLE
from workers.cli import http_hook

WELL = "2.1.332 (Claude Code)"


class Project:
    """A folder, a gateway of the same user, and a `claude` of any version."""

    def __init__(self, folder: Path, server: RealServer) -> None:
        self.folder = folder / "shop"
        self.settings = self.folder / ".claude" / "settings.local.json"
        self.folder.mkdir()
        rules = folder / "rules.json"
        rules.write_text('{"permissions": {"deny": ["Bash(rm *)"]}}')
        self.gateway = ForkedGateway(server, "--rules", f"claude={rules}", with_pages=True)
        self.gateway.start()
        place = {
            "HOME": str(folder),
            "CLAUDE_CONFIG_DIR": "",
            "PATH": f"{folder}:{os.environ['PATH']}",
            "PERMISSION_LEDGER_HOME": str(self.gateway.home),
        }
        self._program = folder / "claude"
        self.version = WELL
        self._line = CommandLine(server.url, place, self.folder)

    def __call__(self, *words: str, code: int = 0) -> Ran:
        self._program.write_text(f"#!/bin/sh\necho '{self.version}'\n")
        self._program.chmod(0o755)
        return self._line(*words, code=code)

    def install(self, *words: str, code: int = 0) -> Ran:
        return self("bridge", "claude", "--install", "--http", "--yes", *words, code=code)

    def read(self) -> Any:
        return json.loads(self.settings.read_text())

    def tokens(self) -> list[Token]:
        """Return the hooks' tokens."""

        async def all_of(ledger: Ledger) -> list[Token]:
            return [one for one in await ledger.tokens.all() if one.name == "claude hook of shop"]

        return self.gateway.with_ledger(all_of)


@pytest.fixture
def project(tmp_path: Path, server: RealServer) -> Iterator[Project]:
    one = Project(tmp_path, server)
    yield one
    one.gateway.close()


def test_it_writes_hooks_and_a_token_that_asks_in_this_project_alone(project: Project) -> None:
    project.settings.parent.mkdir()
    project.settings.write_text('{\n  "env": {"A": "b"},\n  "model": "opus"\n}\n')
    before = project.settings.read_text()
    ran = project.install()
    found = project.read()
    [hook] = found["hooks"]["PreToolUse"][0]["hooks"]
    assert (hook["type"], hook["url"], hook["onFailure"]) == (
        "http",
        f"{project.gateway.page_url}/v1/hooks/claude",
        "block",
    )
    assert hook["headers"]["Authorization"] == f"Bearer ${TOKEN_VARIABLE}"
    assert TOKEN_VARIABLE in hook["allowedEnvVars"]
    assert "onFailure" not in found["hooks"]["Stop"][0]["hooks"][0]
    token = found["env"][TOKEN_VARIABLE]
    assert token not in ran.out
    [made] = project.tokens()
    transcripts = str(
        project.folder.parent / ".claude/projects" / str(project.folder).replace("/", "-").replace("_", "-")
    )
    assert (made.role, made.projects, made.folders, made.brings_rules) == (
        "agent",
        (str(project.folder),),
        (str(project.folder), transcripts),
        False,
    )
    assert "nothing to change" in project.install().out
    assert f"asks the gateway at {project.gateway.page_url}" in project("bridge", "claude", "--status").out
    project("bridge", "claude", "--uninstall", "--scope", "local", "--yes")
    assert project.settings.read_text() == before
    assert [one.revoked_ms is not None for one in project.tokens()] == [True]


def test_command_hooks_in_their_place_end_the_token(project: Project) -> None:
    project.install()
    project("bridge", "claude", "--install", "--scope", "local", "--yes")
    assert "env" not in project.read()
    assert [one.revoked_ms is not None for one in project.tokens()] == [True]


@pytest.mark.parametrize(
    ("words", "version", "said"),
    [
        (("--scope", "user"), WELL, "use `--scope local`"),
        (("--rules", "rules.json"), WELL, "the gateway's own rules judge"),
        (("--project", "größer"), WELL, "ASCII"),
        ((), "2.1.294 (Claude Code)", "is Claude Code 2.1.294: before 2.1.295"),
        ((), "what?", "names no version"),
    ],
)
def test_it_is_refused_in_words(project: Project, words: tuple[str, ...], version: str, said: str) -> None:
    (project.folder / "rules.json").write_text("{}")
    project.version = version
    assert said in project.install(*words, code=12).err
    assert not project.settings.exists()
    assert project.tokens() == []


def test_without_a_gateway_of_ones_own_or_its_rules_it_is_refused(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_hook, "users_listening_on", lambda _: {os.geteuid() + 1})
    assert "is another user's" in project.install(code=12).err
    monkeypatch.undo()
    project.gateway.kill9()
    assert "nothing answers" in project.install(code=12).err
    assert [one.revoked_ms is not None for one in project.tokens()] == [True]
    (project.gateway.home / "gateway.json").unlink()
    assert "start `permission-ledger up`" in project.install(code=12).err


def test_what_went_wrong_since_is_noticed(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    project.install()
    project.version = "2.1.197 (Claude Code)"
    for words in (("bridge", "claude", "--status"), ("doctor",)):
        assert "is Claude Code 2.1.197" in project(*words, code=11).out
    project.version = WELL
    monkeypatch.setattr(http_hook, "users_listening_on", lambda _: {os.geteuid() + 1})
    assert "another user's program listens" in project("bridge", "claude", "--status", code=11).out
    monkeypatch.undo()
    project.gateway.kill9()
    for words in (("bridge", "claude", "--status"), ("doctor",)):
        assert "whoever binds the port gets the hook's token" in project(*words, code=11).out
