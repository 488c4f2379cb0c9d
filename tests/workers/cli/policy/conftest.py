"""The `policy` commands need no server: their tests run them as typed, beside files of rules."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import CommandLine, Ran

OPENCODE = """{
  "permission": {
    "*": "ask",
    "bash": {
      "git *": "allow",
      "git push *": "deny"
    },
    "webfetch": "deny"
  }
}
"""
CLAUDE = """{
  "permissions": {
    "allow": ["Bash(git:*)"],
    "deny": [
      "Bash(git push:*)"
    ]
  }
}
"""


class PolicyLine(CommandLine):
    """Runs `policy …`; `check` has a standard input."""

    def check(self, *questions: Any, options: tuple[str | Path, ...] = (), raw: str = "") -> Ran:
        sent = raw + "".join(json.dumps(one) + "\n" for one in questions)
        return self("policy", "check", *options, stdin=sent)


@pytest.fixture
def line(tmp_path: Path) -> PolicyLine:
    """A shell in which no server can be reached, with a home of its own."""
    home = {"HOME": str(tmp_path), "PERMISSION_LEDGER_HOME": str(tmp_path / "never-made")}
    return PolicyLine("redis://127.0.0.1:1", home)


@pytest.fixture
def opencode(tmp_path: Path) -> Path:
    path = tmp_path / "opencode.json"
    path.write_text(OPENCODE)
    return path


@pytest.fixture
def claude(tmp_path: Path) -> Path:
    """A project with settings of Claude Code; the folder is what is given."""
    path = tmp_path / "project" / ".claude" / "settings.json"
    path.parent.mkdir(parents=True)
    path.write_text(CLAUDE)
    return tmp_path / "project"
