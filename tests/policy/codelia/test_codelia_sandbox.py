"""`cd` is allowed by the sandbox alone."""

from __future__ import annotations

import pytest

from ledger.policy import Verdict
from ledger.policy.checks import MappedFacts
from ledger.policy.codelia.rule import real_cd, virtual_cd
from tests.policy.codelia.codelia_calls import PROFILES, ROOT, commands, grant, judge, policy, verdict
from tests.support.rows import every

LINES = [
    ("cd a", True),
    ("cd ./a/../b", True),
    ("cd a && cd b && cd ../..", True),
    ("cd a && cd ../..", False),
    ("cd ..", False),
    ("cd /repo/a", True),
    ("cd /repository", False),
    ("cd /repo/../etc", False),
    ("cd", False),
    ("cd -", False),
    ("cd --", False),
    ("cd -P a", False),
    ("cd -P", False),
    ("cd ~", False),
    ("cd $HOME", False),
    ("cd 'a'", False),
    ('cd "a b"', False),
    ("cd a*", False),
    ("cd a b", False),
    ("cd ..a", False),
    ("cd a > f", False),
    ("cda", False),
    ("pushd a", False),
]


@every("profile", PROFILES)
@every(("line", "allowed"), LINES)
def test_cd_is_allowed_to_a_literal_folder_inside_the_sandbox(line: str, allowed: bool, profile: str) -> None:
    rules = policy(profile=profile, sandbox_root=ROOT)
    assert (verdict(line, rules) is Verdict.ALLOW) is allowed


@pytest.mark.parametrize("profile", PROFILES)
def test_without_a_sandbox_every_cd_is_asked(profile: str) -> None:
    assert verdict("cd .", policy([{"tool": "bash"}], profile=profile)) is Verdict.ASK


@pytest.mark.parametrize("profile", PROFILES)
def test_no_rule_and_no_grant_widens_the_sandbox(profile: str) -> None:
    allow = [{"tool": "bash"}, *commands("cd"), {"tool": "bash", "command_glob": "cd /tmp*"}]
    rules = policy(allow, profile=profile, sandbox_root=ROOT)
    evaluation = judge("cd /tmp && ls", rules, (grant({"tool": "bash", "command": "cd"}),))
    assert (evaluation.verdict, evaluation.reason) == (Verdict.ASK, "`cd /tmp` may leave the sandbox")
    assert not any(
        rules.lifts(grant({"tool": "bash"}), "bash", part) for part in evaluation.parts if part.text == "cd /tmp"
    )


@pytest.mark.parametrize("profile", PROFILES)
def test_a_deny_for_cd_applies_inside_the_sandbox_too(profile: str) -> None:
    assert verdict("cd a", policy([], commands("cd"), profile=profile, sandbox_root=ROOT)) is Verdict.DENY


@pytest.mark.parametrize("profile", PROFILES)
def test_a_call_starts_where_it_says(profile: str) -> None:
    rules = policy(profile=profile, sandbox_root=ROOT, cwd=ROOT + "/a")
    assert verdict("cd ..", rules) is Verdict.ALLOW
    assert verdict("cd ../..", rules) is Verdict.ASK


def test_the_hundred_and_first_change_of_directory_is_asked() -> None:
    rules = policy(profile="faithful", sandbox_root=ROOT)
    assert verdict("cd a && " * 99 + "cd a", rules) is Verdict.ALLOW
    assert verdict("cd a && " * 100 + "cd a", rules) is Verdict.ASK


FS = {"out": "-> /etc", "deep": "-> a/b/c", "a/b/c": "dir"}


@pytest.mark.parametrize(
    ("line", "hardened"),
    [
        ("cd out", "ask"),
        ("cd deep", "allow"),
        ("cd out/..", "ask"),
        ("cd deep/.. && cd ..", "ask"),
        ("cd deep && cd .. && cd ..", "ask"),
        ("cd a/b/c && cd ../../..", "allow"),
    ],
)
def test_links_are_followed_in_the_hardened_profile(line: str, hardened: str) -> None:
    rules = policy(sandbox_root=ROOT, fs=FS)
    assert verdict(line, rules).value == hardened


def test_a_sandbox_behind_a_link_is_known_by_both_its_names() -> None:
    facts = MappedFacts({"/repo": "-> /data/repo"}, "/")
    assert real_cd("a", "/repo", "/repo", facts) == "/repo/a"
    assert real_cd("/data/repo/a", "/repo", "/repo", facts) == "/data/repo/a"
    assert real_cd("..", "/repo", "/repo", facts) is None


def test_the_guard_of_a_sandbox_that_is_the_root_lets_every_literal_folder() -> None:
    assert virtual_cd("cd /etc", "/", "/") == "/etc"
    assert virtual_cd("cd ..", "/", "/") == "/"
