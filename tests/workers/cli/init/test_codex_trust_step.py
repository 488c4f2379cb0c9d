"""After `init`, Codex is told to trust the hook by the line that `init` prints; `init --undo` takes the trust back."""

from __future__ import annotations

import os
import re
import shlex
import sys
import tomllib
from pathlib import Path

import pytest

from tests.workers.cli.config.person import Person

CODEX = """
import hashlib, json, os, sys, tomllib
from pathlib import Path
CONFIG = Path(os.environ["CODEX_HOME"], "config.toml")

def listed(folder):
    file = Path(folder, ".codex", "hooks.json")
    [group] = json.loads(file.read_text())["hooks"]["PermissionRequest"]
    [hook] = group["hooks"]
    key, now = f"{file}:permission_request:0:0", hashlib.sha256(hook["command"].encode()).hexdigest()
    state = tomllib.loads(CONFIG.read_text()).get("hooks", {}).get("state", {})
    trusted = state.get(key, {}).get("trusted_hash") == now
    return {**hook, "key": key, "currentHash": now, "sourcePath": str(file), "trustStatus": "trusted" if trusted else "untrusted"}

assert sys.argv[1:] == ["app-server"]
for line in sys.stdin:
    asked = json.loads(line)
    if asked["method"] == "initialized":
        continue
    result = {}
    if asked["method"] == "hooks/list":
        result = {"data": [{"hooks": [listed(one)]} for one in asked["params"]["cwds"]]}
    elif asked["method"] == "config/batchWrite":
        for edit in asked["params"]["edits"]:
            for key, value in edit["value"].items():
                with CONFIG.open("a") as file:
                    file.write(f"\\n[hooks.state.{json.dumps(key)}]\\ntrusted_hash = {json.dumps(value['trusted_hash'])}\\n")
    print(json.dumps({"id": asked["id"], "result": result}), flush=True)
"""
MINE = '# mine\nmodel = "x" # why\n'


@pytest.fixture
def config(person: Person) -> Path:
    """Codex's configuration, and on the PATH a program that keeps the trust in hooks as Codex does."""
    program = Path(person.environment["PATH"].partition(os.pathsep)[0]) / "codex"
    program.write_text(f"#!{sys.executable}\n{CODEX}")
    program.chmod(0o755)
    home = person.home / ".codex"
    home.mkdir()
    person.environment["CODEX_HOME"] = str(home)
    (home / "config.toml").write_text(MINE)
    return home / "config.toml"


def step_of(told: str) -> list[str]:
    line = re.search(r"^next +permission-ledger (bridge codex [^#]+)#", told, re.MULTILINE)
    assert line is not None
    return shlex.split(line[1])


def test_the_step_that_is_named_makes_codex_trust_the_hook_and_undo_takes_it_back(person: Person, config: Path) -> None:
    done = person("init", "--yes", code=0)
    hooks = (person.project / ".codex" / "hooks.json").read_text()
    assert config.read_text() == MINE, "init writes nothing to Codex's own configuration"
    words = step_of(done.out)
    assert words == ["bridge", "codex", "--install", "--trust", "--scope", "project"]
    assert "leaves out a hook that it does not trust" in done.out
    assert f"{person.project}/.codex/hooks.json: trusted" in person(*words, code=0).out
    assert (person.project / ".codex" / "hooks.json").read_text() == hooks, "it is the hook that init wrote"
    assert len(tomllib.loads(config.read_text())["hooks"]["state"]) == 1

    shown = person("init", "--undo", "--diff", "--dry-run", code=0).out
    assert f"--- {config}" in shown
    assert "-trusted_hash = " in shown
    person("init", "--undo", "--yes", code=0)
    assert config.read_text() == MINE
    assert not (person.project / ".codex" / "hooks.json").exists()


def test_the_step_has_the_scope_of_the_hook(person: Person, config: Path) -> None:
    done = person("init", "--yes", "--scope", "user", code=0)
    assert step_of(done.out)[-2:] == ["--scope", "user"]
    assert (config.parent / "hooks.json").exists()


def test_undo_without_trust_leaves_codexs_configuration_alone(person: Person, config: Path) -> None:
    person("init", "--yes", code=0)
    assert str(config) not in person("init", "--undo", "--yes", code=0).out
    assert config.read_text() == MINE
