"""Findings of lint, by code."""

from __future__ import annotations

from typing import Any

import pytest

from ledger.core.policy import DemandRule
from ledger.policy import Layer, PolicySource, compile_policy
from ledger.policy.dialects import dialect_named
from ledger.policy.jsonc import parse
from ledger.policy.lint import LintFinding, lint_rules, lint_text
from tests.support.rows import every


def linted(dialect: str, config: Any) -> list[LintFinding]:
    source = PolicySource(dialect, (Layer("project", config=config),), {"cwd": "/repo", "home": "/h"})
    return lint_rules(compile_policy(source), compile_policy)


@pytest.mark.parametrize(
    ("among", "is_too_few"), [(["ann", "bob"], False), (["ann", "Ann"], True), (["ann"], True), ([], False)]
)
def test_a_demand_that_names_fewer_people_than_it_needs_is_an_error(among: list[str], is_too_few: bool) -> None:
    layer = Layer("project", config=bash(), demands=(DemandRule(approvers=2, among=tuple(among)),))
    found = lint_rules(compile_policy(PolicySource("opencode", (layer,))), compile_policy)
    assert [one.severity for one in found if one.code == "too-few-approvers"] == ["error"] * is_too_few


def codes(dialect: str, config: Any) -> list[tuple[str, str]]:
    """Each finding's code, and the first thing that it quotes."""
    return [(one.code, one.text.split("`")[1]) for one in linted(dialect, config)]


def bash(**patterns: str) -> dict[str, Any]:
    return {"permission": {"bash": patterns}}


def tools(**lists: list[str]) -> dict[str, Any]:
    return {"permissions": lists}


@every(
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
        ("opencode", {"permission": {"write": "deny"}}, [("leaky-deny", "write * deny")]),
        ("opencode", {"permission": {"multiedit": "allow"}}, [("never-asked", "multiedit * allow")]),
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


BLANKET = tools(allow=["Bash", "Bash(git log)", "Bash(git push *)", "Read", "Read(/src/**)"])


@pytest.mark.parametrize(
    ("dialect", "config", "found"),
    [
        ("claude", BLANKET, [("blanket", "Bash")]),
        ("betcode", BLANKET, [("blanket", "Bash")]),
        ("opencode", {"permission": {"bash": {"git log *": "allow", "*": "allow"}}}, [("blanket", "bash * allow")]),
        (
            "codelia",
            {"permissions": {"allow": [{"tool": "bash"}, {"tool": "bash", "command": "git log"}]}},
            [("blanket", '{"tool": "bash"}')],
        ),
        # A rule without wildcard allows what an option makes dangerous, which the wider one does not.
        ("claude", tools(allow=["Bash(git log:*)", "Bash(git log --output=x)"]), []),
        ("claude", tools(allow=["Bash(git:*)", "Bash(git log *)"]), [("redundant", "Bash(git log *)")]),
        ("claude", tools(allow=["Bash(git:*)", "Bash(git:*)"]), [("redundant", "Bash(git:*)")]),
        # A deny with an option also keeps other spellings of it from being allowed.
        ("claude", tools(deny=["Bash(*--amend*)", "Bash(git commit --amend*)"]), []),
        ("betcode", {"permissions": {"deny": ["Bash(rm *)"], "final": ["Bash(rm *)"]}}, []),
    ],
)
def test_only_a_rule_that_changes_nothing_is_called_redundant(dialect: str, config: Any, found: list[Any]) -> None:
    assert codes(dialect, config) == found


def test_a_rule_that_another_layer_repeats_is_not_redundant() -> None:
    layers = tuple(Layer(name, config=tools(allow=["Bash(git:*)"])) for name in ("user", "project"))
    policy = compile_policy(PolicySource("claude", layers, {"cwd": "/repo", "home": "/h"}))
    assert lint_rules(policy, compile_policy) == []


@pytest.mark.parametrize(
    ("dialect", "config", "found"),
    [
        # `:*` is a tail in tool rules alone, a path rule is about commands too, and two conditions are narrower.
        ("opencode", {"permission": {"bash": {"git:*": "allow", "git *": "deny"}}}, []),
        ("claude", tools(ask=["Edit(/src/**)"], deny=["Edit"]), []),
        ("betcode", tools(ask=["Bash(git)"], deny=["Bash(*it)"]), []),
        ("betcode", {"permissions": {"allow": ["Bash(git log)"], "final": ["Bash"]}}, [("swallowed", "Bash(git log)")]),
        (
            "codelia",
            {
                "permissions": {
                    "allow": [{"tool": "bash", "command": "git", "command_glob": "*a*"}],
                    "deny": [{"tool": "bash", "command_glob": "git * and *"}],
                }
            },
            [],
        ),
    ],
)
def test_nothing_is_said_to_be_overridden_that_can_decide(dialect: str, config: Any, found: list[Any]) -> None:
    assert codes(dialect, config) == found


@pytest.mark.parametrize("dialect", ["opencode", "claude"])
def test_advice_about_an_allow_under_a_deny_never_lifts_the_deny(dialect: str) -> None:
    config = bash(**{"rm x": "allow", "rm *": "deny"}) if dialect == "opencode" else tools(
        allow=["Bash(rm x)"], deny=["Bash(rm *)"]
    )  # fmt: skip
    assert [one.fix for one in linted(dialect, config)] == ["remove it: a deny stands above it"]


@pytest.mark.parametrize(
    ("pattern", "fix"),
    [
        ("python -m *", "allow whole commands without `*`, or leave it to a person"),
        ("sudo *", "leave it to a person"),
    ],
)
def test_whole_commands_are_advised_only_where_they_are_honoured(pattern: str, fix: str) -> None:
    assert [one.fix for one in linted("opencode", bash(**{pattern: "allow"}))] == [fix]


@pytest.mark.parametrize(
    ("dialect", "config"), [("claude", tools()), ("codelia", {"permissions": {}}), ("opencode", {"permission": {}})]
)
def test_a_file_without_rules_is_not_called_sound(dialect: str, config: Any) -> None:
    assert [one.code for one in linted(dialect, config)] == ["no-rules"]


def test_a_finding_says_file_line_severity_and_what_to_do() -> None:
    document = parse('{"permission": {\n"bash": {"git *": "ask"},\n"bsh": "allow"}}', comments=False)
    layer = Layer("project", config=document.value, file="opencode.json", lines=document.lines)
    policy = compile_policy(PolicySource("opencode", (layer,), {"home": "/h"}))
    assert lint_rules(policy, compile_policy) == [
        LintFinding(
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
    assert [(one.line, one.code) for one in lint_text(dialect_named("claude"), text, file)] == found
