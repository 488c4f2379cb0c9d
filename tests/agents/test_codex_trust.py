"""Installing and uninstalling the hook beside the real Codex: its trust entries are read back and removed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import pytest

from tests.support.command_line import CommandLine

pytestmark = [pytest.mark.agents("codex"), pytest.mark.timeout(180)]

CONFIG: Final = '# mine\nmodel = "x" # why\n\n[tui]\ntheme = "dark" # last'
HOOKS: Final = '{"hooks": {}}'


def test_trust_is_asked_of_codex_and_goes_with_the_hook_to_the_byte(program: Path, tmp_path: Path) -> None:
    config, hooks = tmp_path / "config.toml", tmp_path / "hooks.json"
    config.write_text(CONFIG)
    hooks.write_text(HOOKS)
    path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"
    place = {
        "HOME": str(tmp_path),
        "CODEX_HOME": str(tmp_path),
        "PATH": path,
        "PERMISSION_LEDGER_HOME": str(tmp_path / "home"),
    }
    run = CommandLine("memory://", place)
    assert "leaves it out until it is trusted" in run("bridge", "codex", "--install", "--yes", code=0).err
    assert f"{hooks}: trusted" in run("bridge", "codex", "--install", "--yes", "--trust", code=0).out
    assert f"{hooks}: trusted" in run("bridge", "codex", "--install", "--yes", code=0).out
    assert f"{hooks}: trusted" in run("bridge", "codex", "--status", code=0).out
    run("bridge", "codex", "--uninstall", "--yes", code=0)
    assert (config.read_text(), hooks.read_text()) == (CONFIG, HOOKS)
