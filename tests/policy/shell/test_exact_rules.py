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


@pytest.mark.parametrize("dialect", ["betcode", "brutus", "claude", "opencode"])
def test_a_rule_that_says_how_a_program_is_used_covers_the_scripts_of_the_project(dialect: str) -> None:
    lines = {
        "node --test *": ("node --test tests/*.test.js", "node --test tests", "node --test"),
        "node *": ("node --version",),
        "node --test a.js": ("node --test a.js",),
    }
    asked = {
        "node --test *": (
            "node --test /etc/x.js",
            "node --test $X",
            "node --test --require ./x.js a",
            "node --test -e x",
        ),
        "node *": ("node --test a.js", "node a.js --test"),
        "node --test a.js": ("node --test b.js", "node --test"),
    }
    tool = "Bash" if dialect in ("betcode", "claude") else "bash"
    for rule, expected in lines.items():
        config: dict[str, Any] = {"permissions": {"allow": [f"Bash({rule})"]}}
        if tool == "bash":
            config = {"permission": {"bash": {"*": "ask", rule: "allow"}}}
        policy = compile_policy(PolicySource(dialect, (Layer("r", config=config),), {"cwd": FOLDER, "fs": FACTS}))
        found = {line: policy.evaluate(Call(tool, (), tool, {"command": line})) for line in (*expected, *asked[rule])}
        allowed = [line for line, one in found.items() if one.verdict is Verdict.ALLOW and not one.ask_first]
        assert tuple(allowed) == expected
