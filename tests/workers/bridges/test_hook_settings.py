"""The hooks of Codex and Gemini CLI in their settings files: what was there stays, twice is once, and nothing is left."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.command_line import CommandLine, Ran

FILES: Final = {"codex": ".codex/hooks.json", "gemini": ".gemini/settings.json"}
EVENTS: Final = {"codex": "PermissionRequest", "gemini": "BeforeTool"}
THEIRS: Final[dict[str, Any]] = {
    "hooks": {
        "PermissionRequest": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "./check.sh"}]}],
        "BeforeTool": [{"matcher": "write_file", "hooks": [{"type": "command", "command": "./check.sh"}]}],
        "Stop": [{"hooks": [{"type": "command", "command": "say done"}]}],
    },
    "model": {"name": "größer"},
}

# Answers as Codex's app-server does, and keeps what it is told to trust in a file beside the hooks.
APP_SERVER: Final = """
import json, os, sys
home = os.path.join(os.environ["HOME"], ".codex")
kept = os.path.join(home, "state.json")
for line in sys.stdin:
    said = json.loads(line)
    if "id" not in said:
        continue
    state = json.load(open(kept)) if os.path.exists(kept) else {}
    result = {}
    if said["method"] == "hooks/list":
        path = os.path.join(home, "hooks.json")
        listed = json.load(open(path))["hooks"]
        hooks = [dict(hook, key=f"{path}:{event}:{i}", currentHash=hook["command"], sourcePath=path)
                 for event, entries in listed.items() for i, entry in enumerate(entries) for hook in entry["hooks"]]
        for hook in hooks:
            known = state.get(hook["key"], {}).get("trusted_hash")
            hook["trustStatus"] = {None: "untrusted", hook["currentHash"]: "trusted"}.get(known, "modified")
        result = {"data": [{"cwd": said["params"]["cwds"][0], "hooks": hooks}]}
    elif said["method"] == "config/batchWrite":
        json.dump({**state, **said["params"]["edits"][0]["value"]}, open(kept, "w"))
    print(json.dumps({"method": "noise"}))
    print(json.dumps({"id": said["id"], "result": result}), flush=True)
"""


class Settings:
    """`hook AGENT --install …` in a home of its own."""

    def __init__(self, agent: str, folder: Path) -> None:
        self.agent = agent
        self.folder = folder
        self.path = folder / FILES[agent]
        self.programs = folder / "bin"
        self.programs.mkdir()

    def __call__(self, *words: str, code: int = 0) -> Ran:
        place = {"HOME": str(self.folder), "CODEX_HOME": "", "GEMINI_CLI_HOME": "", "PATH": str(self.programs)}
        return CommandLine("memory://")("hook", self.agent, *words, code=code, **place)

    def read(self) -> Any:
        return json.loads(self.path.read_text())

    def write(self, text: str) -> str:
        self.path.parent.mkdir(exist_ok=True)
        self.path.write_text(text)
        return text

    def add_codex(self) -> None:
        program = self.programs / "codex"
        program.write_text(f"#!{sys.executable}\n{APP_SERVER}")
        program.chmod(0o755)


@pytest.fixture(params=list(FILES))
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> Settings:
    return Settings(request.param, tmp_path)


@pytest.fixture
def codex(tmp_path: Path) -> Settings:
    found = Settings("codex", tmp_path)
    found.add_codex()
    return found


def test_installing_adds_our_hook_shows_the_change_and_keeps_all_else(settings: Settings) -> None:
    settings.write(json.dumps(THEIRS, indent=4, ensure_ascii=False) + "\n")
    ran = settings("--install", "--yes", "--rules", "rules.json")
    found, event = settings.read(), EVENTS[settings.agent]
    *theirs, ours = found["hooks"].pop(event)
    assert theirs == THEIRS["hooks"][event]
    assert found == {**THEIRS, "hooks": {name: THEIRS["hooks"][name] for name in THEIRS["hooks"] if name != event}}
    assert f"run.py {settings.agent} " in ours["hooks"][0]["command"]
    assert ours["hooks"][0]["command"].endswith(" || exit 2")
    shown = [line for line in ran.out.splitlines() if line.startswith("+ ")]
    assert any("run.py" in line for line in shown)
    assert "größer" in settings.path.read_text()


def test_installing_twice_is_installing_once_and_with_other_options_the_later_ones_hold(settings: Settings) -> None:
    settings("--install", "--yes")
    first = settings.path.read_text()
    assert "nothing to change" in settings("--install", "--yes").out
    assert settings.path.read_text() == first
    settings("--install", "--yes", "--on-unreachable", "agent")
    [entry] = settings.read()["hooks"][EVENTS[settings.agent]]
    assert "--on-unreachable agent" in entry["hooks"][0]["command"]


def test_uninstalling_leaves_the_file_byte_for_byte_as_it_was(settings: Settings) -> None:
    text = settings.write(json.dumps(THEIRS, indent=2, ensure_ascii=False) + "\n")
    settings("--install", "--yes")
    assert settings.path.read_text() != text
    settings("--uninstall", "--yes")
    assert settings.path.read_text() == text


def test_a_file_that_only_we_wrote_is_gone_after_uninstalling(settings: Settings) -> None:
    settings("--install", "--yes")
    settings("--uninstall", "--yes")
    assert not settings.path.exists()


def test_without_a_yes_nothing_is_written(settings: Settings) -> None:
    text = settings.write(json.dumps(THEIRS))
    settings("--install", code=130)
    assert settings.path.read_text() == text


@pytest.mark.parametrize("text", ['{"hooks": ', "[]", '{"hooks": []}', '{"hooks": {"PreToolUse": {}}}', "// x\n{}"])
def test_a_file_that_cannot_be_understood_is_left_alone(settings: Settings, text: str) -> None:
    settings.write(text)
    ran = settings("--install", "--yes", code=12)
    assert (settings.path.read_text(), ran.err.startswith("error: ")) == (text, True)


def test_switches_beside_the_hooks_stay(settings: Settings) -> None:
    settings.write(json.dumps({"hooks": {"enabled": True, "disabled": ["other"]}}))
    settings("--install", "--yes")
    settings("--uninstall", "--yes")
    assert settings.read() == {"hooks": {"enabled": True, "disabled": ["other"]}}


def test_the_status_says_where_the_hook_stands(settings: Settings) -> None:
    assert f"{settings.path}: not installed" in settings("--status").out
    settings("--install", "--yes")
    assert f"{settings.path}: installed for {EVENTS[settings.agent]}" in settings("--status").out


@pytest.mark.parametrize("words", [("--install", "--status"), ("--settings", "--uninstall")])
def test_one_thing_is_done_at_a_time(settings: Settings, words: tuple[str, ...]) -> None:
    assert "say one of" in settings(*words, code=2).err


def test_codex_asked_of_another_event_has_the_hook_there_and_no_more_where_it_was(codex: Settings) -> None:
    codex("--install", "--yes")
    codex("--install", "--yes", "--event", "PreToolUse")
    assert list(codex.read()["hooks"]) == ["PreToolUse"]


def test_codex_is_told_that_the_hook_is_trusted_and_the_status_asks_it(codex: Settings) -> None:
    ran = codex("--install", "--yes")
    assert "leaves it out until it is trusted" in ran.err
    assert "leaves it out until it is trusted" in codex("--status").out
    assert f"{codex.path}: trusted" in codex("--install", "--yes", "--trust").out
    assert f"{codex.path}: trusted" in codex("--status").out
    codex("--install", "--yes", "--on-unreachable", "agent")
    assert "leaves it out until it is trusted" in codex("--status").out, "a changed hook is another one"


def test_without_a_codex_to_ask_nothing_is_said_to_be_trusted(tmp_path: Path) -> None:
    settings = Settings("codex", tmp_path)
    assert "no `codex` on the PATH" in settings("--install", "--yes", "--trust", code=12).err
    assert settings.path.exists(), "it is installed all the same"
    assert "is not known" in settings("--status").out


def test_trust_goes_with_installing_alone(codex: Settings) -> None:
    assert "--trust goes with --install" in codex("--status", "--trust", code=2).err
