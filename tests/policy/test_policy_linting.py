"""What lint finds, by its code."""

from __future__ import annotations

from typing import Any

import pytest

from ledger.policy import Layer, PolicySource, compile_policy
from ledger.policy.jsonc import parse
from ledger.policy.linting import Finding, lint_rules, lint_text


def linted(dialect: str, config: Any) -> list[Finding]:
    source = PolicySource(dialect, (Layer("project", config=config),), {"cwd": "/repo", "home": "/h"})
    return lint_rules(compile_policy(source), compile_policy)


def codes(dialect: str, config: Any) -> list[tuple[str, str]]:
    """Each finding's code, and the first thing that it quotes."""
    return [(one.code, one.text.split("`")[1]) for one in linted(dialect, config)]


def bash(**patterns: str) -> dict[str, Any]:
    return {"permission": {"bash": patterns}}


def tools(**lists: list[str]) -> dict[str, Any]:
    return {"permissions": lists}


@pytest.mark.parametrize(
    ("dialect", "config", "found"),
    [
        ("opencode", {"permission": {"bash": {"git *": "allow", "rm *": "deny"}}}, []),
        ("opencode", {"permission": {"bash": {"rm *": "deny", "*": "ask"}}}, [("swallowed", "bash rm * deny")]),
        ("opencode", {"permission": {"bash": {"git log": "ask", "git *": "allow"}}}, [("unreachable", "bash git log ask")]),
        ("opencode", {"permission": {"bash": {"git log": "allow", "git *": "allow"}}}, [("redundant", "bash git log allow")]),
        ("opencode", {"permission": {"bash": {"git *": "deny", "git log": "allow"}}}, [("lifted-deny", "bash git * deny")]),
        ("opencode", {"permission": {"bash": {"sudo *": "allow"}}}, [("not-honoured", "bash sudo * allow")]),
        ("opencode", {"permission": {"bsh": "allow"}}, [("unknown-tool", "bsh * allow")]),
        ("opencode", {"permission": {"myserver_frobnicate": "allow"}}, []),
        ("opencode", {"permission": {"write": "deny"}}, [("never-asked", "write * deny")]),
        ("opencode", {"permission": {"edit": {"!*.lock": "allow"}}}, [("literal-negation", "!*.lock")]),
        ("claude", tools(allow=["Bash(git:*)"], deny=["Bash(git push:*)"]), []),
        ("claude", tools(allow=["Bash(git push)"], deny=["Bash(git:*)"]), [("unreachable", "Bash(git push)")]),
        ("claude", tools(allow=["Bash(git push)"], deny=["Bash"]), [("swallowed", "Bash(git push)")]),
        ("claude", tools(allow=["Bash(sudo:*)"]), [("not-honoured", "Bash(sudo:*)")]),
        ("claude", tools(allow=["Baash(x)"]), [("unknown-tool", "Baash(x)")]),
        ("claude", tools(allow=["mcp__github__list"]), []),
        ("claude", tools(denny=["Bash(x)"]), [("unknown-key", "permissions")]),
        ("betcode", tools(allow=["Bash(git log)"], deny=["Bash"]), [("lifted-deny", "Bash")]),
        (
            "codelia",
            {"permissions": {"allow": [{"tool": "bash", "command": "git push"}], "deny": [{"tool": "bash", "command": "git"}]}},
            [("unreachable", '{"tool": "bash", "command": "git push"}')],
        ),
        (
            "codelia",
            {"permissions": {"allow": [{"tool": "bash", "command": "sudo"}]}},
            [("not-honoured", '{"tool": "bash", "command": "sudo"}')],
        ),
    ],
)  # fmt: skip
def test_a_mistake_is_found_and_a_sound_rule_is_not(dialect: str, config: Any, found: list[tuple[str, str]]) -> None:
    assert codes(dialect, config) == found


def test_a_finding_says_file_line_severity_and_what_to_do() -> None:
    document = parse('{"permission": {\n"bash": {"git *": "ask"},\n"bsh": "allow"}}', comments=False)
    layer = Layer("project", config=document.value, file="opencode.json", lines=document.lines)
    policy = compile_policy(PolicySource("opencode", (layer,), {"home": "/h"}))
    assert lint_rules(policy, compile_policy) == [
        Finding(
            "opencode.json", 3, "unknown-tool", "warning",
            "`bsh * allow` is about a tool `bsh`, which opencode does not have", "did you mean `bash`?",
        )
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "file", "found"),
    [
        ('{"permissions": {}}', "settings.json", []),
        ('{"permissions": {"allow": ["Read"],}}', "settings.json", [(1, "trailing-comma")]),
        ('{\n// mine\n"permissions": {}}', "settings.json", [(2, "trailing-comma")]),
        ('{"permissions": {},}', "settings.jsonc", []),
        ('{\n"permissions": {', "settings.json", [(2, "syntax")]),
        ('{\n"permission": {}}', "settings.json", [(2, "unknown-key")]),
        ('{"model": "x"}', "settings.json", []),
        ("[]", "settings.json", []),
    ],
)
def test_a_file_that_programs_would_drop_or_not_read_is_found(text: str, file: str, found: list[Any]) -> None:
    assert [(one.line, one.code) for one in lint_text("claude", text, file)] == found
