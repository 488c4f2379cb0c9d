"""Evaluations of BRUTUS's policy beside the verdict, and the additions of its hardened profile."""

from __future__ import annotations

from typing import Any

import pytest

from ledger.core.policy import RuleRef
from ledger.policy import Call, Evaluation, Layer, Part, PolicyError, PolicySource, Rule, Verdict, compile_policy
from ledger.policy.brutus import BrutusPolicy
from tests.policy.brutus.brutus_calls import PROFILES, PROJECT, approved, bash, configured, policy

EXTERNAL = "external_directory"
FILES = ("a.ts", "a.md", "a.env")


@pytest.mark.parametrize("profile", PROFILES)
def test_a_denial_prints_all_rules_as_go_does_with_approvals_last(profile: str) -> None:
    rules = configured({"*": "ask", "bash": {"git *": "allow", "rm *": "deny"}}, profile=profile)
    evaluation = rules.evaluate(bash("rm x"), approved("ls*"))
    deny = RuleRef("bash rm * deny", "project")
    assert evaluation == Evaluation(
        Verdict.DENY,
        (Part("rm x", Verdict.DENY, (deny,), liftable=profile == "faithful"),),
        (deny,),
        "Permission denied by rule: [{* * ask} {bash git * allow} {bash rm * deny} {bash ls* allow}]",
        None,
        ("rm*",),
    )


def test_the_first_pattern_that_asks_hides_a_later_deny_and_no_grant_releases_it() -> None:
    rules = [["bash", "rm *", "deny"]]
    faithful = policy(rules, profile="faithful").evaluate(bash("make; rm x"))
    assert [(part.text, part.verdict, part.liftable) for part in faithful.parts] == [
        ("make", Verdict.ASK, True),
        ("rm x", Verdict.ASK, False),
    ]
    hardened = policy(rules).evaluate(bash("make; rm x"))
    assert (hardened.verdict, hardened.message) == (Verdict.DENY, "Denied by rule: bash rm * deny")


@pytest.mark.parametrize("profile", PROFILES)
def test_a_refused_folder_is_a_call_of_its_own(profile: str) -> None:
    rules = configured({"bash": "allow", EXTERNAL: {"/etc/*": "deny", "/tmp/*": "allow"}}, profile=profile)
    evaluation = rules.evaluate(bash("rm /etc/x /tmp/y"))
    assert (evaluation.verdict, evaluation.ask_first) == (Verdict.ALLOW, (Call(EXTERNAL, ("/etc/x", "/tmp/y")),))
    first = rules.evaluate(evaluation.ask_first[0])
    assert [(part.text, part.verdict.value) for part in first.parts] == [("/etc/x", "deny"), ("/tmp/y", "allow")]


@pytest.mark.parametrize("profile", PROFILES)
def test_an_approval_holds_for_the_patterns_that_it_named(profile: str) -> None:
    rules = configured({"bash": "ask"}, profile=profile)
    asked = rules.evaluate(bash("git push origin; git log"))
    grants = approved(*asked.always)
    assert asked.always == ("git push*", "git log*")
    again = rules.evaluate(bash("git push; git log -p"), grants)
    assert (again.verdict, again.reason) == (Verdict.ALLOW, "allowed by a grant in force")
    assert [part.grants for part in again.parts] == [("g1",), ("g2",)]
    assert all(any(rules.lifts(grant, "bash", part) for grant in grants) for part in asked.parts)
    assert rules.evaluate(bash("git pull"), grants).verdict is Verdict.ASK


def test_an_approval_lifts_a_configured_deny_in_the_faithful_profile_only() -> None:
    rules = [["bash", "rm *", "deny"]]
    answers = [policy(rules, profile=profile).evaluate(bash("rm x"), approved("rm*")).verdict for profile in PROFILES]
    assert answers == [Verdict.ALLOW, Verdict.DENY]


def test_an_approval_cannot_lift_what_a_longer_permission_asks() -> None:
    rules = policy([["bash*", "rm *", "ask"]], profile="faithful")
    evaluation = rules.evaluate(bash("rm x"), approved("rm*"))
    assert [(part.verdict, part.liftable) for part in evaluation.parts] == [(Verdict.ASK, False)]
    assert not rules.lifts(approved("rm*")[0], "bash", evaluation.parts[0])


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(
    ("tool", "value", "permission", "text"),
    [
        ("write", {"filePath": "a.env"}, "edit", "a.env"),
        ("edit", {"file_path": "/x/a.env"}, "edit", "/x/a.env"),
        ("webfetch", {"url": "https://a.env"}, "webfetch", "https://a.env"),
        ("todo", {}, "todo", "*"),
        ("todo", None, "todo", "*"),
    ],
)
def test_another_tool_is_asked_by_its_name_and_subject(
    tool: str, value: Any, permission: str, text: str, profile: str
) -> None:
    rules = configured({permission: {"*": "allow", "*.env": "deny"}}, profile=profile)
    evaluation = rules.evaluate(Call(tool, tool_name=tool, input=value))
    expected = "deny" if text.endswith(".env") else "allow"
    assert ([(p.text, p.verdict.value) for p in evaluation.parts], evaluation.always) == ([(text, expected)], ("*",))


def test_a_tool_is_disabled_when_its_last_rule_denies_everything() -> None:
    rules = configured({"*": "deny", "bash": {"*": "deny", "ls": "allow"}, "read": "allow", "edit": "deny"})
    assert rules.disabled(["bash", "read", "edit", "write", "task"]) == {"edit", "write", "task"}


@pytest.mark.parametrize("profile", PROFILES)
def test_a_line_that_cannot_be_looked_into_is_asked(profile: str) -> None:
    evaluation = policy([["bash", "*", "allow"]], profile=profile).evaluate(bash("echo $(" * 2_000))
    assert (evaluation.verdict, [part.liftable for part in evaluation.parts]) == (Verdict.ASK, [False])


@pytest.mark.parametrize("profile", PROFILES)
def test_a_blank_line_is_nothing_to_ask(profile: str) -> None:
    assert policy([], profile=profile).evaluate(bash("  ")).verdict is Verdict.ALLOW


@pytest.mark.parametrize(
    ("line", "rules"),
    [
        ("ls $X", [["bash", "*", "allow"]]),
        ("find . -delete", [["bash", "*", "allow"]]),
        ("ls > f", [["bash", "*", "allow"]]),
        ("sudo ls", [["bash", "sudo *", "allow"]]),
        ("cd ../..", [["bash", "*", "allow"]]),
        ("cd link", [["bash", "*", "allow"]]),
    ],
)
def test_what_brutus_lets_through_unread_is_asked_in_the_hardened_profile(line: str, rules: list[list[str]]) -> None:
    assert [policy(rules, profile=profile).evaluate(bash(line)).verdict for profile in PROFILES] == [
        Verdict.ALLOW,
        Verdict.ASK,
    ]


@pytest.mark.parametrize("line", ["r'm' x", "/bin/rm x", "sudo rm x", "X=1 rm x", "sh -c 'rm x'", "timeout 5 rm x"])
def test_a_deny_reaches_every_spelling_in_the_hardened_profile(line: str) -> None:
    rules = [["bash", "*", "allow"], ["bash", "rm *", "deny"]]
    assert policy(rules).evaluate(bash(line)).verdict is Verdict.DENY


def test_a_redirection_is_judged_by_the_rules_for_files_in_the_hardened_profile() -> None:
    rules = configured({"bash": "allow", "edit": {"*": "allow", "*.env": "deny"}, "read": {"secret/*": "deny"}})
    lines = ["ls > .env", "ls > x", "cat < secret/a", f"cat < {PROJECT}/secret/a", "ls 2>&1"]
    assert [rules.evaluate(bash(line)).verdict.value for line in lines] == ["deny", "allow", "deny", "deny", "allow"]
    assert configured({"bash": "allow"}).evaluate(bash("ls > x")).verdict is Verdict.ASK


@pytest.mark.parametrize(
    "line", ["git status", "git diff | head -5", "timeout 5 git log", "cd sub && git status", "ls *.py"]
)
def test_plain_commands_stay_allowed_in_the_hardened_profile(line: str) -> None:
    rules = [["bash", pattern, "allow"] for pattern in ("git *", "head *", "timeout *", "cd *", "ls *")]
    evaluation = policy(rules).evaluate(bash(line))
    assert (evaluation.verdict, evaluation.reason) == (Verdict.ALLOW, None)


def test_layers_are_concatenated_and_an_untrusted_one_does_not_allow() -> None:
    low = Layer(
        "user", config={"permission": {"bash": {"rm *": "deny"}}}, file="u.json", lines={"/permission/bash/rm *": 3}
    )
    high = Layer("project", config={"permission": {"bash": {"rm *": "allow", "mv *": "deny"}}}, trusted=False)
    rules = BrutusPolicy(PolicySource("brutus", (low, high)))
    assert rules.rules == (
        Rule("bash", "rm *", Verdict.DENY, "user", "u.json", 3),
        Rule("bash", "mv *", Verdict.DENY, "project"),
    )


@pytest.mark.parametrize(
    ("config", "text"),
    [
        ([], "a configuration is an object with `permission`"),
        ({"permission": "allow"}, "`permission` must be an object, not `allow`"),
        ({"permission": {"bash": "maybe"}}, "the action of `bash` must be `allow`, `ask` or `deny`, not `maybe`"),
        ({"permission": {"bash": {"x": 1}}}, "the action of `bash` for `x` must be"),
    ],
)
def test_a_configuration_of_another_shape_is_refused(config: Any, text: str) -> None:
    with pytest.raises(PolicyError) as refused:
        compile_policy(PolicySource("brutus", (Layer("x", config=config),)))
    assert text in str(refused.value)


def test_an_option_that_is_not_understood_is_refused() -> None:
    with pytest.raises(PolicyError, match="the brutus dialect has no option `order`"):
        compile_policy(PolicySource("brutus", (), {"order": "insertion"}))


@pytest.mark.parametrize("profile", PROFILES)
def test_a_deny_by_the_name_of_a_tool_that_asks_for_edit_counts(profile: str) -> None:
    rules = configured({"edit": "allow", "write": {"*.env": "deny", "*.md": "ask"}}, profile=profile)
    calls = {
        f"{tool} {path}": Call("edit", (), tool, {"file_path": path}) for tool in ("write", "edit") for path in FILES
    }
    denied = [name for name, call in calls.items() if rules.evaluate(call).verdict is Verdict.DENY]
    assert denied == ["write a.env"]
    assert rules.evaluate(calls["write a.env"]).rules == (RuleRef("write *.env deny", "project"),)
