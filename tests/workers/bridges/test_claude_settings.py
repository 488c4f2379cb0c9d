"""Our hooks in Claude Code's settings: other content stays, installing is idempotent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.command_line import CommandLine, Ran
from workers.bridges.hook_entries import (
    AGENT,
    EVENTS,
    events_of_ours,
    hook_settings,
    own_line,
    with_entries,
    without_entries,
)
from workers.transport.place import BridgeError

THEIRS: Final[dict[str, Any]] = {
    "permissions": {"allow": ["Bash(ls)"]},
    "hooks": {
        "PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "./check.sh"}]}],
        "Stop": [{"hooks": [{"type": "command", "command": "say done"}]}],
    },
    "model": "opus",
}


class Settings:
    """`bridge claude --install …` in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "config" / "settings.json"
        self.folder = folder

    def __call__(self, *words: str, code: int = 0) -> Ran:
        place = {"CLAUDE_CONFIG_DIR": str(self.path.parent), "HOME": str(self.folder)}
        return CommandLine("memory://")("bridge", "claude", *words, code=code, **place)

    def read(self) -> Any:
        return json.loads(self.path.read_text())

    def write(self, value: Any, indent: int = 2) -> str:
        self.path.parent.mkdir(exist_ok=True)
        text = json.dumps(value, indent=indent) + "\n"
        self.path.write_text(text)
        return text


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(tmp_path)


def test_installing_adds_our_hooks_and_changes_nothing_else(settings: Settings) -> None:
    settings.write(THEIRS)
    ran = settings("--install", "--yes")
    found = settings.read()
    assert sorted(events_of_ours(found, AGENT)) == sorted(EVENTS)
    assert {event: entries[:1] for event, entries in found["hooks"].items() if event in THEIRS["hooks"]} == THEIRS[
        "hooks"
    ]
    assert (found["permissions"], found["model"]) == (THEIRS["permissions"], "opus")
    assert "+++ " in ran.out, "the change is shown"


def test_installing_twice_is_installing_once_and_with_other_options_the_later_ones_hold(settings: Settings) -> None:
    settings("--install", "--yes")
    first = settings.path.read_text()
    assert "nothing to change" in settings("--install", "--yes").out
    assert settings.path.read_text() == first
    settings("--install", "--yes", "--on-unreachable", "agent")
    [entry] = settings.read()["hooks"]["PreToolUse"]
    assert "--on-unreachable agent" in entry["hooks"][0]["command"]


def test_hooks_are_installed_with_the_language_of_the_rules(settings: Settings) -> None:
    settings("--install", "--yes", "--dialect", "betcode")
    [entry] = settings.read()["hooks"]["PreToolUse"]
    assert "--dialect betcode" in entry["hooks"][0]["command"]


@pytest.mark.parametrize("before", [THEIRS, {"model": "opus"}])
@pytest.mark.parametrize("indent", [2, 4])
def test_uninstalling_leaves_the_file_as_it_was(settings: Settings, before: dict[str, Any], indent: int) -> None:
    text = settings.write(before, indent)
    settings("--install", "--yes")
    settings("--uninstall", "--yes")
    assert settings.path.read_text() == text


def test_a_file_that_only_we_wrote_is_gone_after_uninstalling(settings: Settings) -> None:
    settings("--install", "--yes")
    settings("--uninstall", "--yes")
    assert not settings.path.exists()


def test_without_a_yes_nothing_is_written(settings: Settings) -> None:
    text = settings.write(THEIRS)
    settings("--install", code=130)
    assert settings.path.read_text() == text


@pytest.mark.parametrize("text", ['{"hooks": ', "[]", '{"hooks": []}', '{"hooks": {"PreToolUse": {}}}'])
def test_a_file_that_cannot_be_understood_is_left_alone(settings: Settings, text: str) -> None:
    settings.write({})
    settings.path.write_text(text)
    ran = settings("--install", "--yes", code=12)
    assert settings.path.read_text() == text
    assert ran.err.startswith("error: ")


def test_the_status_says_where_the_hooks_stand(settings: Settings) -> None:
    assert f"{settings.path}: not installed" in settings("--status").out
    settings("--install", "--yes")
    assert f"{settings.path}: installed for {', '.join(EVENTS)}" in settings("--status").out
    changed = settings.read()
    del changed["hooks"]["PostToolUse"]
    settings.write(changed)
    assert "missing: PostToolUse" in settings("--status", code=11).out


def test_the_installed_line_names_the_interpreter_and_the_file_in_full_and_blocks_where_they_are_gone() -> None:
    interpreter, isolated, script, agent, *rest = own_line(AGENT, ["--project", "a b"]).split()
    assert (Path(interpreter).is_absolute(), isolated, Path(script).is_file(), agent) == (True, "-I", True, "claude")
    assert " ".join(rest) == "--project 'a b' || exit 2"


def test_hooks_of_an_older_place_of_ours_are_replaced() -> None:
    old = "/old/python -I /old/lib/workers/bridges/hooks/run.py claude || exit 2"
    settings = {"hooks": {"PreToolUse": [{"matcher": "*", "hooks": [{"type": "command", "command": old}]}]}}
    assert without_entries(settings, AGENT) == {}
    assert old not in json.dumps(with_entries(settings, AGENT, hook_settings([])))


def test_settings_of_another_form_are_refused() -> None:
    with pytest.raises(BridgeError, match="`hooks` in the settings is not of the form"):
        with_entries({"hooks": "none"}, AGENT, hook_settings([]))


@pytest.mark.parametrize(
    "words", [(), ("--install", "--status"), ("--status", "--", "claude")], ids=["nothing", "two", "and a command"]
)
def test_one_thing_is_done_at_a_time(settings: Settings, words: tuple[str, ...]) -> None:
    assert "give one of" in settings(*words, code=2).err


def test_the_line_for_the_end_of_a_turn_never_keeps_the_agent_from_ending_it() -> None:
    hooks = hook_settings([])
    ends = {event: entry["hooks"][0]["command"].partition(" || ")[2] for event, [entry] in hooks.items()}
    assert ends == {event: "exit 0" if event in ("Stop", "SessionEnd") else "exit 2" for event in EVENTS}


@pytest.mark.parametrize(
    ("way", "other", "said"),
    [
        ("PermissionRequest", "PreToolUse", "In mode `auto`"),
        ("PreToolUse", "PermissionRequest", "nobody at the terminal"),
    ],
)
def test_one_event_alone_is_installed_without_the_other_and_what_it_leaves_out_is_said(
    settings: Settings, way: str, other: str, said: str
) -> None:
    settings("--install", "--yes")
    ran = settings("--install", "--yes", "--event", way)
    found = settings.read()["hooks"]
    assert (way in found, other in found) == (True, False)
    assert said in ran.err
    assert "--event both" not in settings.path.read_text()
    assert "missing" not in settings("--status").out


def test_by_default_the_terminal_is_asked_beside_the_inbox_for_as_long_as_it_shows_its_prompt(
    settings: Settings,
) -> None:
    settings("--install", "--yes")
    [before], [beside] = (settings.read()["hooks"][event][0]["hooks"] for event in ("PreToolUse", "PermissionRequest"))
    assert "--event both" in before["command"]
    assert (before["timeout"], beside["timeout"], "--limit 86400" in beside["command"]) == (600, 86400, True)
