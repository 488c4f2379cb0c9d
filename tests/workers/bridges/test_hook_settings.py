"""The hooks of Codex and Gemini CLI in their settings files: other content stays, installing is idempotent."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.command_line import CommandLine, Ran
from workers.bridges import codex_trust
from workers.transport.place import BridgeError

FILES: Final = {"codex": ".codex/hooks.json", "gemini": ".gemini/settings.json", "qwen": ".qwen/settings.json"}
EVENTS: Final = {"codex": "PermissionRequest", "gemini": "BeforeTool", "qwen": "PreToolUse"}
THEIRS: Final[dict[str, Any]] = {
    "hooks": {
        "PermissionRequest": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "./check.sh"}]}],
        "PreToolUse": [{"matcher": "write_file", "hooks": [{"type": "command", "command": "./check.sh"}]}],
        "BeforeTool": [{"matcher": "write_file", "hooks": [{"type": "command", "command": "./check.sh"}]}],
        "Stop": [{"hooks": [{"type": "command", "command": "say done"}]}],
    },
    "model": {"name": "größer"},
}

# Answers as Codex's app-server does, and keeps what it is told to trust where and as that does.
APP_SERVER: Final = """
import json, os, sys, tomllib
home = os.path.join(os.environ["HOME"], ".codex")
kept = os.path.join(home, "config.toml")
snake = lambda event: "".join("_" + c.lower() if c.isupper() and i else c.lower() for i, c in enumerate(event))
for line in sys.stdin:
    said = json.loads(line)
    if "id" not in said:
        continue
    text = open(kept).read() if os.path.exists(kept) else ""
    state = tomllib.loads(text).get("hooks", {}).get("state", {})
    result = {}
    if said["method"] == "hooks/list":
        path = os.path.join(home, "hooks.json")
        listed = json.load(open(path))["hooks"]
        hooks = [dict(hook, key=f"{path}:{snake(event)}:{i}:{j}", currentHash=hook["command"], sourcePath=path)
                 for event, entries in listed.items() for i, entry in enumerate(entries) for j, hook in enumerate(entry["hooks"])]
        for hook in hooks:
            known = state.get(hook["key"], {}).get("trusted_hash")
            hook["trustStatus"] = {None: "untrusted", hook["currentHash"]: "trusted"}.get(known, "modified")
        result = {"data": [{"cwd": said["params"]["cwds"][0], "hooks": hooks}]}
    elif said["method"] == "config/batchWrite":
        for key, value in said["params"]["edits"][0]["value"].items():
            old = f"trusted_hash = {json.dumps(state.get(key, {}).get('trusted_hash'))}"
            new = f"trusted_hash = {json.dumps(value['trusted_hash'])}"
            block = f"{'' if state else chr(10) + '[hooks.state]' + chr(10)}{chr(10)}[hooks.state.{json.dumps(key)}]{chr(10)}{new}{chr(10)}"
            text = text.replace(old, new) if key in state else text.rstrip() + chr(10) + block
            state[key] = value
        open(kept, "w").write(text)
    print(json.dumps({"method": "noise"}))
    print(json.dumps({"id": said["id"], "result": result}), flush=True)
"""


class Settings:
    """`bridge AGENT --install …` in a home of its own."""

    def __init__(self, agent: str, folder: Path) -> None:
        self.agent = agent
        self.folder = folder
        self.path = folder / FILES[agent]
        self.programs = folder / "bin"
        self.programs.mkdir()

    def __call__(self, *words: str, code: int = 0) -> Ran:
        place = {
            "HOME": str(self.folder),
            "CODEX_HOME": "",
            "GEMINI_CLI_HOME": "",
            "QWEN_HOME": "",
            "PATH": str(self.programs),
        }
        return CommandLine("memory://")("bridge", self.agent, *words, code=code, **place)

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
    rules = settings.folder / "rules.json"
    rules.write_text("{}")
    ran = settings("--install", "--yes", "--rules", str(rules))
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


@pytest.mark.parametrize("text", ['{"hooks": ', "[]", '{"hooks": []}', '{"hooks": {"PreToolUse": {}}}', "/* x"])
def test_a_file_that_cannot_be_understood_is_left_alone(settings: Settings, text: str) -> None:
    settings.write(text)
    ran = settings("--install", "--yes", code=12)
    assert (settings.path.read_text(), ran.err.startswith("error: ")) == (text, True)


@pytest.mark.parametrize(("agent", "code"), [("gemini", 0), ("qwen", 0), ("codex", 12)])
def test_comments_are_for_agents_that_take_them(tmp_path: Path, agent: str, code: int) -> None:
    settings = Settings(agent, tmp_path)
    text = settings.write('// mine\n{\n  "hooks": {} // none yet\n}')
    ran = settings("--install", "--yes", code=code)
    if code:
        assert "line 1, is not JSON: the agent accepts no comments in it" in ran.err
    settings("--uninstall", "--yes", code=code)
    assert settings.path.read_text() == text


def test_switches_beside_the_hooks_stay(settings: Settings) -> None:
    settings.write(json.dumps({"hooks": {"enabled": True, "disabled": ["other"]}}))
    settings("--install", "--yes")
    settings("--uninstall", "--yes")
    assert settings.read() == {"hooks": {"enabled": True, "disabled": ["other"]}}


def test_the_status_says_where_the_hook_stands(settings: Settings) -> None:
    assert f"{settings.path}: not installed" in settings("--status").out
    settings("--install", "--yes")
    # Without a `codex` to ask, whether it trusts the hook is not known.
    ran = settings("--status", "--json", code=11 if settings.agent == "codex" else 0)
    row = json.loads(ran.out.splitlines()[0])
    assert (row["file"], row["events"], row["missing"]) == (str(settings.path), [EVENTS[settings.agent]], [])
    assert all(note["ok"] is False for note in row["notes"])


@pytest.mark.parametrize("words", [("--install", "--status"), ("--settings", "--uninstall")])
def test_one_thing_is_done_at_a_time(settings: Settings, words: tuple[str, ...]) -> None:
    assert "give one of" in settings(*words, code=2).err


def test_codex_asked_of_another_event_has_the_hook_there_and_no_more_where_it_was(codex: Settings) -> None:
    codex("--install", "--yes")
    codex("--install", "--yes", "--event", "PreToolUse")
    assert list(codex.read()["hooks"]) == ["PreToolUse"]


def test_codex_is_told_that_the_hook_is_trusted_and_the_status_asks_it(codex: Settings) -> None:
    ran = codex("--install", "--yes")
    assert "leaves it out until it is trusted" in ran.err
    assert "leaves it out until it is trusted" in codex("--status", code=11).out
    assert f"{codex.path}: trusted" in codex("--install", "--yes", "--trust").out
    assert f"{codex.path}: trusted" in codex("--status").out
    codex("--install", "--yes", "--on-unreachable", "agent")
    assert "leaves it out until it is trusted" in codex("--status", code=11).out, "a changed hook is another one"


CONFIG: Final = '# mine\nmodel = "x" # why\n\n[tui]\ntheme = "dark" # last'


def test_what_codex_was_told_to_trust_goes_with_the_hook_to_the_byte(codex: Settings) -> None:
    codex.write("{}")
    config = codex.path.with_name("config.toml")
    config.write_text(CONFIG)
    codex("--install", "--yes", "--trust")
    codex("--install", "--yes", "--trust", "--event", "PreToolUse")
    assert config.read_text().count("hooks.json") == 2
    ran = codex("--uninstall", "--yes")
    assert (codex.path.read_text(), config.read_text()) == ("{}", CONFIG)
    assert "-[hooks.state." in ran.out, "the change is shown"


def test_trust_goes_without_what_a_person_wrote_beside_it_since(codex: Settings) -> None:
    codex("--install", "--yes", "--trust")
    config = codex.path.with_name("config.toml")
    theirs = '[hooks.state."/elsewhere/hooks.json:stop:0:0"]\ntrusted_hash = "x" # theirs\n'
    config.write_text(f"# mine\n{config.read_text()}\n{theirs}")
    for record in codex.folder.rglob("installed/*.json"):
        record.unlink()
    codex("--uninstall", "--yes")
    assert "run.py" not in config.read_text()
    assert str(codex.path) not in config.read_text()
    assert config.read_text().startswith("# mine\n")
    assert theirs in config.read_text()


def test_trust_that_cannot_be_taken_out_safely_is_left_with_a_word_on_what_to_take_out(
    codex: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    codex("--install", "--yes", "--trust")
    monkeypatch.setattr("workers.bridges.settings_file.load", lambda _: None)
    monkeypatch.setattr("tomlkit.dumps", lambda _: "[another]")
    with pytest.raises(BridgeError, match=r'take its `\[hooks\.state\."…"\]` out by hand'):
        codex_trust.forgetting(codex.path.with_name("config.toml"), codex.path)


def test_a_configuration_that_only_codex_wrote_for_us_goes_too(codex: Settings) -> None:
    codex("--install", "--yes", "--trust")
    codex("--uninstall", "--yes")
    assert list(codex.path.parent.iterdir()) == []


@pytest.mark.parametrize("has_codex", [True, False])
def test_installing_and_the_status_say_the_same_of_trust(tmp_path: Path, has_codex: bool) -> None:
    settings = Settings("codex", tmp_path)
    if has_codex:
        settings.add_codex()
    for words in (("--install", "--yes"), *([("--install", "--yes", "--trust")] if has_codex else [])):
        installed = settings(*words)
        [said] = [line for line in (installed.out + installed.err).splitlines() if "trust" in line]
        again = settings("--install", "--yes")
        assert said in again.out + again.err
        assert said in settings("--status", code=0 if "--trust" in words else 11).out.splitlines()


def test_without_a_codex_to_ask_nothing_is_said_to_be_trusted(tmp_path: Path) -> None:
    settings = Settings("codex", tmp_path)
    assert "no `codex` on the PATH" in settings("--install", "--yes", "--trust", code=12).err
    assert settings.path.exists(), "it is installed all the same"
    assert "is not known" in settings("--status", code=11).out


def test_trust_goes_with_installing_alone(codex: Settings) -> None:
    assert "--trust goes with --install" in codex("--status", "--trust", code=2).err
