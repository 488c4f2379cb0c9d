"""A rule that spells a whole command, beside a rule that denies a file which the command reads or writes."""

from __future__ import annotations

from typing import Any, Final

import pytest

from ledger.policy import Call, Layer, PolicySource, Verdict, compile_policy

FOLDER: Final = "/home/ann/shop"
FACTS: Final = {".env": "file", "innocent.txt": "-> .env"}


def configuration(dialect: str, command: str) -> dict[str, Any]:
    if dialect in ("betcode", "claude"):
        return {"permissions": {"allow": [f"Bash({command})"], "deny": ["Read(.env)", "Edit(.env)"]}}
    files = {"*": "allow", "*.env": "deny"}
    return {"permission": {"bash": {command: "allow"}, "read": files, "edit": files}}


@pytest.mark.parametrize("dialect", ["betcode", "brutus", "claude", "opencode"])
def test_a_denied_file_stays_denied_for_a_command_that_a_rule_spells_out(dialect: str) -> None:
    allowed = []
    for command in ("cat .env", "cp .env x", "grep x .env", "cat innocent.txt"):
        source = PolicySource(
            dialect, (Layer("r", config=configuration(dialect, command)),), {"cwd": FOLDER, "fs": FACTS}
        )
        tool = "Bash" if dialect in ("betcode", "claude") else "bash"
        evaluation = compile_policy(source).evaluate(Call(tool, (), tool, {"command": command}))
        if evaluation.verdict is not Verdict.DENY:
            allowed.append(command)
    assert allowed == []
