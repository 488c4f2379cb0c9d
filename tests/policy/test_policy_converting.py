"""Rules converted from one dialect to another: never looser, and every change to stricter is reported."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.policy import Layer, PolicySource, compile_policy
from ledger.policy.conversion.convert import convert
from ledger.policy.dialects import dialect_named
from ledger.policy.neutral import SUBJECTS
from tests.policy.converted import DIALECTS, PROFILES, Compared
from tests.policy.rule_shapes import config_of, rules

CLAUDE = {
    "permissions": {
        "allow": [
            "Bash(git:*)",
            "Bash(npm test)",
            "Bash(ls *)",
            "Read",
            "Edit(/src/**)",
            "WebFetch(domain:example.com)",
        ],
        "ask": ["Bash(git push:*)"],
        "deny": ["Bash(rm:*)", "Read(./.env)", "Bash(git push --force:*)", "WebFetch(domain:evil.com)"],
    }
}
OPENCODE = {
    "permission": {
        "*": "ask",
        "bash": {
            "rm *": "deny",
            "git *": "allow",
            "git push *": "ask",
            "git push --force *": "deny",
            "npm test": "allow",
        },
        "read": {"*": "allow", "*.env": "deny"},
        "edit": {"*": "deny", "src/*": "allow"},
        "webfetch": "deny",
    }
}
CODELIA = {
    "version": 1,
    "permissions": {
        "allow": [{"tool": "bash", "command": "git"}, {"tool": "bash", "command_glob": "npm test"}, {"tool": "read"}],
        "deny": [{"tool": "bash", "command": "git push"}, {"tool": "bash", "command": "rm"}],
    },
}
BETCODE = {"permissions": {"allow": ["Bash(git *)", "Read"], "ask": ["Bash(git push *)"], "deny": ["Bash", "Edit"]}}
ALL: dict[str, Any] = {
    "claude": CLAUDE,
    "opencode": OPENCODE,
    "codelia": CODELIA,
    "betcode": BETCODE,
    "brutus": OPENCODE,
}


def source(dialect: str, config: Any) -> PolicySource:
    return PolicySource(dialect, (Layer("project", config=config),), {"cwd": "/repo", "home": "/home/ann"})


@pytest.mark.parametrize("target", DIALECTS)
@pytest.mark.parametrize("origin", DIALECTS)
@pytest.mark.parametrize("profile", PROFILES)
def test_a_converted_configuration_is_never_looser(origin: str, target: str, profile: str) -> None:
    if origin != target:
        assert Compared(origin, target, ALL[origin], profile).looser == []


@pytest.mark.slow
@pytest.mark.parametrize("target", DIALECTS)
@pytest.mark.parametrize("origin", DIALECTS)
def test_no_rule_of_the_corpus_is_looser_and_one_without_a_notice_is_the_same(origin: str, target: str) -> None:
    if origin == target:
        return
    compared = [
        Compared(origin, target, config_of(origin, [rule]), profile) for rule in rules(origin) for profile in PROFILES
    ]
    assert [(one.config, one.looser) for one in compared if one.looser] == []
    assert [(one.config, one.different) for one in compared if one.different and not one.changes] == []


DIRECTIONS = [(origin, target) for origin in DIALECTS for target in DIALECTS if origin != target]


@given(direction=st.sampled_from(DIRECTIONS), profile=st.sampled_from(PROFILES), data=st.data())
def test_any_rules_together_are_never_looser_and_without_a_notice_the_same(
    direction: tuple[str, str], profile: str, data: st.DataObject
) -> None:
    origin, target = direction
    found = data.draw(st.lists(st.sampled_from(rules(origin)), min_size=1, max_size=5))
    compared = Compared(origin, target, config_of(origin, found), profile)
    assert compared.looser == []
    assert compared.changes or compared.different == []


@pytest.mark.parametrize("target", ["brutus", "claude", "codelia", "opencode"])
def test_a_deny_of_betcode_keeps_its_reach(target: str) -> None:
    found = Compared("betcode", target, {"permissions": {"deny": ["Bash(git push --force)"]}}, "hardened")
    assert (found.looser, found.different, found.changes) == ([], [], ())


@pytest.mark.parametrize(
    ("origin", "config"),
    [
        ("betcode", {"permissions": {"deny": ["Bash"], "ask": ["Bash(make a?c)"]}}),
        ("betcode", {"permissions": {"deny": ["*"], "ask": ["Task(general)"]}}),
        ("brutus", {"permission": {"web*": "deny", "webfetch": {"https://example.com/*": "ask"}}}),
    ],
)
def test_an_ask_that_grows_lifts_no_deny(origin: str, config: Any) -> None:
    for target in ("opencode", "brutus"):
        assert target == origin or Compared(origin, target, config, "hardened").looser == []


@pytest.mark.parametrize("origin", ["brutus", "opencode"])
@pytest.mark.parametrize("action", ["ask", "deny"])
@pytest.mark.parametrize(
    ("narrow", "wide"), [(("edit", "src/*"), ("edit", "*/a.ts")), (("bash", "git *"), ("bash", "*\\n*"))]
)
def test_a_restriction_that_grows_to_its_tool_does_not_yield_to_a_narrow_allow(
    origin: str, action: str, narrow: tuple[str, str], wide: tuple[str, str]
) -> None:
    config = config_of(origin, [(*narrow, "allow"), (*wide, action)])
    for target in DIALECTS:
        assert target == origin or Compared(origin, target, config, "hardened").looser == []


def test_a_permission_with_a_wildcard_is_about_the_tools_that_it_matches() -> None:
    found = Compared("opencode", "claude", {"permission": {"bas?": "deny"}}, "hardened")
    assert "Bash" in found.config["permissions"]["deny"]
    assert found.looser == []


def test_a_deny_of_everything_names_every_tool_of_codelia() -> None:
    found = Compared("opencode", "codelia", {"permission": {"*": "deny"}}, "hardened")
    denied = {one["tool"] for one in found.config["permissions"]["deny"]}
    assert {"bash", "read", "edit", "write", "apply_patch", "skill_load"} <= denied


@pytest.mark.parametrize(
    "found", [[("*", "*", "deny"), ("bas?", "*", "allow")], [("read", "*", "ask"), ("*", "*", "deny")]]
)
@pytest.mark.parametrize("direction", [one for one in DIRECTIONS if one[0] in ("brutus", "opencode")])
def test_a_deny_of_everything_is_kept_beside_what_is_taken_out_of_it(direction: tuple[str, str], found: Any) -> None:
    compared = Compared(*direction, config_of(direction[0], found), "hardened")
    assert compared.looser == []
    assert compared.changes or compared.different == []


def test_an_allow_that_the_source_guards_by_folders_is_left_out_with_the_reason() -> None:
    config = {"permission": {"bash": {"rm *": "allow", "npm *": "allow"}}}
    found = Compared("opencode", "claude", config, "hardened")
    assert found.config == {"permissions": {"allow": ["Bash(npm:*)"]}}
    assert found.told == [
        ("bash rm * allow", "the allow is left out: opencode asks about folders outside the project first, and this would not")
    ]  # fmt: skip


def test_claude_s_rules_become_opencode_s_with_a_default_that_asks() -> None:
    found = convert(compile_policy(source("claude", CLAUDE)), dialect_named("opencode"))
    assert found.config == {
        "permission": {
            "*": "ask",
            "bash": {
                "git *": "allow",
                "npm test": "allow",
                "ls *": "allow",
                "git push *": "ask",
                "rm *": "deny",
                "git push --force *": "deny",
                "*.env*": "deny",
            },
            "read": {
                "*": "allow",
                ".env": "deny",
                ".env/*": "deny",
                "*/.env": "deny",
                "*/.env/*": "deny",
            },
            "edit": {"src/*": "allow"},
            "webfetch": "deny",
        }
    }
    assert [(one.rule.ref.text, one.text) for one in found.changes] == [
        ("WebFetch(domain:example.com)", "opencode has no such rule; the allow is left out, so it asks"),
        ("WebFetch(domain:evil.com)", "opencode has no such rule; it now covers the whole tool"),
        ("Read(./.env)", "commands that name `.env` are denied whatever they do with it"),
    ]


def test_opencode_s_rules_become_claude_s_and_what_would_be_lost_is_told() -> None:
    found = convert(compile_policy(source("opencode", OPENCODE)), dialect_named("claude"))
    assert found.config == {
        "permissions": {
            "allow": ["Bash(git:*)", "Bash(npm test)", "Read(/**)"],
            "ask": ["Task", "Agent", "Glob", "Grep", "LS", "TodoWrite", "TodoRead", "Bash(git push:*)"],
            "deny": [
                "Bash(rm:*)", "Bash(git push --force:*)", "Read(*.env)", "Edit", "Write", "MultiEdit", "NotebookEdit",
                "WebFetch",
            ],
        }
    }  # fmt: skip
    assert [(one.rule.ref.text, one.text) for one in found.changes] == [
        ("* * ask", "claude asks by itself, but not about commands that only look"),
        ("edit * deny", "it now comes before `edit src/* allow` too"),
        ("edit src/* allow", "the allow is left out: `edit * deny` would come before it, or cannot be expressed"),
        ("read *.env deny", "it now covers commands that name the file too"),
    ]


def test_a_program_without_ask_rules_gets_no_allow_that_an_ask_limits() -> None:
    found = convert(compile_policy(source("claude", CLAUDE)), dialect_named("codelia"))
    assert {"tool": "bash", "command": "git"} not in found.config["permissions"]["allow"]
    assert "Bash(git:*)" in [one.rule.ref.text for one in found.changes]


def test_there_and_back_again_says_the_same() -> None:
    plain = {"permissions": {"allow": ["Bash(git status:*)", "Read"], "deny": ["Bash(rm:*)"]}}
    there = convert(compile_policy(source("claude", plain)), dialect_named("opencode")).config
    back = convert(compile_policy(source("opencode", there)), dialect_named("claude")).config["permissions"]
    assert (back["allow"], back["deny"]) == (["Bash(git status:*)", "Read(/**)"], ["Bash(rm:*)"])


@pytest.mark.parametrize("dialect", ["opencode", "claude"])
def test_every_subject_has_a_name_in_opencode_and_in_claude(dialect: str) -> None:
    assert tuple(dialect_named(dialect).tool_names.names) == SUBJECTS
