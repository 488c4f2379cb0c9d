"""Suggestions wider than one call: they list what else they allow, each was tried, and none lifts a deny."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.policy import Call, Layer, Policy, PolicySource, Verdict, compile_policy
from ledger.policy.check_questions import JudgedCall, call_of
from ledger.policy.dialects import dialect_named
from ledger.policy.explanation import Explanation, explain
from ledger.policy.matching import match, wildcards_meet

DENIED = (
    "git push --force", "git push -f origin main", "git push origin +main", "git push --mirror", "git tag -d v1", "git tag v1 --force",
    "git log --output=f", "git -C /etc log", "rm x", "rm -rf /", "ls /etc/passwd", "ls *.env", "cat .env", "npm test --zap",
    "npm run deploy", "git add .env", "git commit --amend", "sudo ls", "curl https://example.com", "git branch -D main",
)  # fmt: skip
"""Commands of which a deny is recorded with the rules, and that no advice may let through."""

ASKED = (
    "ls *.py", "git add *.py", "git log *.c", "cat *.md", "git tag v1", "git push origin main", "npm test", "npm run build",
    "git diff ?.c", "wc -l *.py", "git commit -m x", "make build", "rm *.log", "git show HEAD", "frobnicate *.c",
)  # fmt: skip
PATTERNS = (
    "git push *", "*--force*", "git push -f *", "git * --amend*", "rm *", "*.env*", "git tag -d *", "npm run deploy *", "git *",
    "*--output*", "sudo *", "*/etc/*", "git branch -D *", "curl *", "npm test --zap",
)  # fmt: skip
DIALECTS = ("opencode", "brutus", "betcode", "claude", "codelia")

denies = st.lists(st.sampled_from(PATTERNS), max_size=4, unique=True)


def config_of(dialect: str, denied: list[str]) -> dict[str, Any]:
    if dialect in ("opencode", "brutus"):
        return {"permission": {"bash": {"*": "ask", **dict.fromkeys(denied, "deny")}}}
    if dialect == "codelia":
        return {"permissions": {"deny": [{"tool": "bash", "command_glob": one} for one in denied]}}
    return {"permissions": {"deny": [f"Bash({one})" for one in denied]}}


def policy_of(dialect: str, *configs: Any, profile: str = "hardened") -> Policy:
    layers = tuple(Layer(name, config=config) for name, config in zip(("project", "local"), configs, strict=False))
    return compile_policy(PolicySource(dialect, layers, {"cwd": "/repo", "home": "/h", "profile": profile}))


def call_for(dialect: str, command: str) -> Call:
    return call_of({"dialect": dialect, "tool": dialect_named(dialect).language.shell, "input": {"command": command}})


def verdict(policy: Policy, command: str) -> Verdict:
    return JudgedCall(policy, call_for(policy.source.dialect, command)).verdict


def explained(policy: Policy, command: str) -> Explanation:
    return explain(policy, call_for(policy.source.dialect, command), compile_policy)


@pytest.mark.slow
@given(
    dialect=st.sampled_from(DIALECTS),
    profile=st.sampled_from(["hardened", "faithful"]),
    denied=denies,
    command=st.sampled_from(ASKED),
)
def test_an_advised_rule_changes_no_recorded_deny_and_tells_what_else_it_lets_through(
    dialect: str, profile: str, denied: list[str], command: str
) -> None:
    config = config_of(dialect, denied)
    before = policy_of(dialect, config, profile=profile)
    recorded = [one for one in DENIED if verdict(before, one) is Verdict.DENY]
    for fix in explained(before, command).fixes:
        if fix.config is None or fix.verdict is not Verdict.ALLOW:
            continue
        after = policy_of(dialect, config, fix.config, profile=profile)
        assert verdict(after, command) is Verdict.ALLOW
        assert [one for one in recorded if verdict(after, one) is not Verdict.DENY] == []
        for one in fix.lets_through:
            assert (verdict(before, one) is Verdict.ALLOW, verdict(after, one)) == (False, Verdict.ALLOW)


def test_where_no_rule_names_the_command_alone_its_family_is_advised_with_what_it_lets_through() -> None:
    fix = explained(policy_of("opencode", config_of("opencode", [])), "ls *.py").fixes[0]
    assert fix.config == {"permission": {"bash": {"ls *": "allow"}}}
    assert fix.text.startswith("to allow it and others of its kind, add")
    assert "`ls other`" not in fix.text
    assert "ls other" in fix.lets_through


def test_a_family_that_might_lift_a_deny_is_not_advised() -> None:
    fix = explained(policy_of("opencode", config_of("opencode", ["*.env*"])), "ls *.py").fixes[0]
    assert fix.config is None
    assert fix.text.startswith("no rule allows it, because")


def test_a_rule_for_the_command_alone_lets_nothing_else_through() -> None:
    fix = explained(policy_of("claude", config_of("claude", [])), "git tag v1").fixes[0]
    assert (fix.config, fix.lets_through) == ({"permissions": {"allow": ["Bash(git tag v1)"]}}, ())


@pytest.mark.parametrize(
    ("command", "found"),
    [
        ('cat "$HOME/x"', [('"$HOME/x"', "$HOME", "the value of a variable is known only when the line runs")]),
        ("echo a$(date)b", [("a$(date)b", "$(date)", "it is the output of a command")]),
        ("ls src/*.py", [("src/*.py", "*", "it matches the files that exist when the line runs")]),
        ("ls {a,b}", [("{a,b}", "{a,b}", "braces expand to several words")]),
        ("cat ~/x", [("~/x", "~", "it is a home directory")]),
        ("git log --oneline", []),
        ("echo '$HOME *'", []),
    ],
)
def test_the_part_of_a_word_that_is_not_known_is_named_with_the_reason(
    command: str, found: list[tuple[str, ...]]
) -> None:
    explanation = explained(policy_of("opencode", config_of("opencode", [])), command)
    assert [(one.word, one.text, one.why) for one in explanation.unknown] == found


def test_each_command_is_explained_with_its_normal_form() -> None:
    read = explained(policy_of("opencode", config_of("opencode", [])), "rm -Rf x && frobnicate y").commands
    assert [(one.text, one.form is not None) for one in read] == [("rm -Rf x", True), ("frobnicate y", False)]
    assert read[0].form is not None
    assert {one.name for one in read[0].form.options} == {"--recursive", "--force"}


wildcards = st.text("ab*? ", max_size=5)


@given(one=wildcards, other=wildcards, text=st.text("ab ", max_size=6))
def test_two_wildcards_that_match_one_text_wildcards_meet(one: str, other: str, text: str) -> None:
    if match(text, one) and match(text, other):
        assert wildcards_meet(one, other)


@pytest.mark.parametrize(
    ("one", "other", "meet"),
    [("git push *", "*--force*", True), ("git push *", "rm *", False), ("ls *", "ls", True), ("a?c", "ac", False), ("ab", "a*c", False)],
)  # fmt: skip
def test_wildcards_meet_where_a_text_satisfies_both(one: str, other: str, meet: bool) -> None:
    assert wildcards_meet(one, other) is meet
