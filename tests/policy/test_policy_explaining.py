"""Reasons of a verdict, and the rule to write for another one: every suggestion is tried."""

from __future__ import annotations

from typing import Any

import pytest

from ledger.policy import Call, Layer, PolicySource, compile_policy
from ledger.policy.check_questions import JudgedCall
from ledger.policy.dialects import dialect_named
from ledger.policy.explanation import Explanation, explain

TOOL_RULES = {"permissions": {"allow": ["Bash(git:*)"], "deny": ["Bash(git push --force:*)"]}}
CODELIA = {"permissions": {"allow": [{"tool": "bash", "command": "git"}], "deny": [{"tool": "bash", "command": "rm"}]}}
OPENCODE = {"permission": {"bash": {"git *": "allow", "git push --force *": "deny"}}}
CONFIGS: dict[str, Any] = {
    "opencode": OPENCODE, "brutus": OPENCODE, "claude": TOOL_RULES, "betcode": TOOL_RULES, "codelia": CODELIA,
}  # fmt: skip


def explained(dialect: str, command: str) -> tuple[PolicySource, Call, Explanation]:
    source = PolicySource(dialect, (Layer("project", config=CONFIGS[dialect]),), {"cwd": "/repo", "home": "/h"})
    shell = dialect_named(dialect).language.shell
    call = Call(dialect_named(dialect).shell_permission, (), shell, {"command": command})
    return source, call, explain(compile_policy(source), call, compile_policy)


def test_a_rule_that_matches_and_did_not_decide_is_named_with_what_came_before_it() -> None:
    _, _, found = explained("claude", "git push --force x")
    assert [(near.rule.ref.text, near.matches, near.why) for near in found.near] == [
        ("Bash(git:*)", True, "it matches, but `Bash(git push --force:*)` decides")
    ]
    assert [(fix.verdict.value, fix.text, fix.config) for fix in found.fixes] == [
        (
            "ask",
            "it is denied by `Bash(git push --force:*)` (layer project); no rule is suggested that would lift a deny",
            None,
        )
    ]


def test_a_rule_about_the_same_program_that_does_not_match_is_named_as_close() -> None:
    _, _, found = explained("opencode", "git log")
    assert [(near.rule.ref.text, near.matches) for near in found.near] == [("bash git push --force * deny", False)]


@pytest.mark.parametrize("dialect", sorted(CONFIGS))
def test_what_is_suggested_leads_to_the_verdict_that_it_promises(dialect: str) -> None:
    source, call, found = explained(dialect, "frob x y")
    assert [fix.verdict.value for fix in found.fixes] == ["allow", "deny"]
    for fix in found.fixes:
        assert fix.config is not None
        layers = (*source.layers, Layer("local", config=fix.config))
        again = compile_policy(PolicySource(dialect, layers, source.options))
        assert JudgedCall(again, call).verdict is fix.verdict


@pytest.mark.parametrize("dialect", sorted(CONFIGS))
def test_where_no_rule_can_allow_a_line_that_is_said_with_the_reason(dialect: str) -> None:
    _, _, found = explained(dialect, "$X y")
    assert found.fixes[0].config is None
    assert found.fixes[0].text.startswith("no rule allows it, because ")
