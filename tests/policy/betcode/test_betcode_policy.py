"""Evaluations of the dialect `betcode` beside the verdict: parts, grants, the grants of an always, and errors."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.policy import Call, Evaluation, Grant, Layer, Part, PolicyError, PolicySource, Verdict, compile_policy
from ledger.policy.betcode import BetCodePolicy
from ledger.policy.toolrules import ToolGrant

CWD = "/home/ann/shop"


def policy(permissions: dict[str, Any], **options: Any) -> BetCodePolicy:
    layer = Layer("project", config={"permissions": permissions})
    made = compile_policy(PolicySource("betcode", (layer,), {"cwd": CWD, "home": "/home/ann", **options}))
    assert isinstance(made, BetCodePolicy)
    return made


def bash(command: str) -> Call:
    return Call("Bash", (), "Bash", {"command": command})


def told(found: Evaluation) -> list[tuple[str, str]]:
    return [(part.text, part.verdict.value) for part in found.parts]


def test_a_line_has_one_part_for_each_command_at_any_depth_and_then_its_redirections() -> None:
    found = policy({"allow": ["Bash(git *)"]}, profile="faithful").evaluate(
        bash("git  log > out.txt; echo $(git status)")
    )
    assert told(found) == [
        ("git log", "ask"),
        ("echo $(git status)", "ask"),
        ("git status", "ask"),
        ("> out.txt", "ask"),
    ]


def test_another_tool_has_one_part_its_path_or_its_name() -> None:
    rules = policy({"allow": ["Edit(src/**)", "mcp__github"]})
    assert told(rules.evaluate(Call("Edit", (), "Edit", {"file_path": "src/../src/a.ts"}))) == [
        (f"{CWD}/src/a.ts", "allow")
    ]
    assert told(rules.evaluate(Call("mcp__github__get", (), "mcp__github__get", {}))) == [("mcp__github__get", "allow")]


def test_a_session_grant_is_for_the_whole_tool_when_faithful_and_for_the_exact_unit_when_hardened() -> None:
    call = bash("git push origin main && git  status")
    assert policy({}, profile="faithful").evaluate(call).always == ("Bash",)
    assert policy({}).evaluate(call).always == ("Bash(git push origin main)", "Bash(git status)")
    assert policy({}).evaluate(Call("Edit", (), "Edit", {"file_path": "a[1].ts"})).always == (
        f"Edit(/{CWD}/a\\[1].ts)",
    )
    assert policy({}).evaluate(bash("git push &")).always == ()


def test_what_an_always_grants_allows_the_same_call_again() -> None:
    rules = policy({})
    for call in (
        bash("git push origin main"),
        Call("Edit", (), "Edit", {"file_path": "a[1] b.ts"}),
        Call("X", (), "X", {}),
    ):
        asked = rules.evaluate(call)
        granted = [Grant(f"g{number}", call.permission, entry) for number, entry in enumerate(asked.always)]
        again = rules.evaluate(call, granted)
        assert (asked.verdict, again.verdict) == (Verdict.ASK, Verdict.ALLOW)
        assert [part.grants for part in again.parts] == [("g0",)]
        assert rules.evaluate(bash("git push origin other"), granted).verdict is Verdict.ASK


def test_a_grant_comes_after_the_rules_and_its_deny_before_its_allow() -> None:
    rules = policy({"ask": ["Bash(git push *)"], "deny": ["Bash(rm *)"]}, profile="faithful")
    whole = [Grant("g", "Bash", "Bash")]
    assert [rules.evaluate(bash(line), whole).verdict.value for line in ("ls", "git push x", "rm x")] == [
        "allow",
        "ask",
        "deny",
    ]
    denied = [*whole, ToolGrant("h", "Bash", "Bash(ls)", action=Verdict.DENY)]
    assert rules.evaluate(bash("ls"), denied).verdict is Verdict.DENY
    assert rules.evaluate(bash("ls -l"), denied).verdict is Verdict.ALLOW


words = st.sampled_from(["git", "push", "x"])
lines = st.lists(st.lists(words, min_size=1, max_size=3).map(" ".join), min_size=1, max_size=3).map("; ".join)
patterns = st.sampled_from(["Bash", "Bash(git *)", "Bash(git push)", "git *", "x", "Bash(x*)", "Read"])


@given(line=lines, pattern=patterns, profile=st.sampled_from(["faithful", "hardened"]))
def test_a_grant_lifts_a_recorded_part_exactly_when_a_fresh_evaluation_allows_it(
    line: str, pattern: str, profile: str
) -> None:
    rules = policy({"ask": ["Bash(git push)"]}, profile=profile)
    grant = Grant("g", "Bash", pattern)
    asked, fresh = rules.evaluate(bash(line)), rules.evaluate(bash(line), [grant])
    lifted = [rules.lifts(grant, "Bash", part) for part in asked.parts]
    assert lifted == [part.verdict is Verdict.ALLOW for part in fresh.parts]


def test_a_part_that_no_grant_may_lift_is_never_lifted() -> None:
    assert not policy({}).lifts(Grant("g", "Bash", "Bash"), "Bash", Part("ls", Verdict.ASK, liftable=False))
    assert not policy({}).lifts(Grant("g", "Bash", "Bash"), "Bash", Part("ls", Verdict.DENY))


def test_a_tool_is_disabled_when_no_rule_may_lift_the_deny_of_the_whole_tool() -> None:
    rules = policy({"deny": ["Bash", "Write", "mcp__github", "Read(x)"], "allow": ["Bash(npm test)"]})
    tools = ["Bash", "Write", "Read", "mcp__github__get", "mcp__other__get"]
    assert rules.disabled(tools) == frozenset({"Write", "mcp__github__get"})


def test_a_permission_with_patterns_stands_for_the_tool_with_each_of_them() -> None:
    rules = policy({"allow": ["Bash(git *)"], "deny": ["Bash(rm *)"]})
    found = rules.evaluate(Call("Bash", ("git status", "rm x")))
    assert (found.verdict, told(found), found.message) == (
        Verdict.DENY,
        [("git status", "allow"), ("rm x", "deny")],
        "Denied by rule: Bash(rm *)",
    )
    assert rules.evaluate(Call("Bash", ())).verdict is Verdict.ALLOW


def test_a_line_that_cannot_be_read_is_asked_and_still_denied_by_what_is_found_in_it() -> None:
    rules = policy({"allow": ["Bash"], "deny": ["Bash(rm *)"]})
    lines = ["", "# only a comment", "ls '", "rm x '", "ls $(", "x" * 70_000, "ls \u200b", "rm x; \u202els"]
    assert [rules.evaluate(bash(line)).verdict.value for line in lines] == [
        "allow", "allow", "ask", "deny", "ask", "ask", "ask", "deny",
    ]  # fmt: skip


def test_a_hardened_deny_names_its_rule() -> None:
    rules = policy({"allow": ["Bash(sudo *)", "Bash(cat *)"], "deny": ["Read(.env)"]})
    found = rules.evaluate(bash("cat x; cat < .env"))
    assert (found.verdict, found.message, [rule.text for rule in found.rules]) == (
        Verdict.DENY,
        "Denied by rule: Read(.env)",
        ["Read(.env)"],
    )


@pytest.mark.parametrize(
    ("config", "text"),
    [
        ([], "a configuration is an object with `permissions`, not `[]`"),
        ({"permissions": []}, "`permissions` must be an object with `allow`, `ask` and `deny`"),
        ({"permissions": {"deny": "Bash"}}, "`deny` must be a list of rules, not `Bash`"),
        ({"permissions": {"deny": [1]}}, "a rule is a string such as `Bash(git status)`, not `1`"),
        ({"permissions": {"deny": [" "]}}, "a rule is a string such as `Bash(git status)`, not ` `"),
        ({"permissions": {"deny": ["Bash(rm *"]}}, "the rule `Bash(rm *` has no `)` at its end"),
        ({"permissions": {"deny": ["(rm *)"]}}, "the rule `(rm *)` names no tool"),
    ],
)
def test_a_misshapen_configuration_is_refused(config: Any, text: str) -> None:
    with pytest.raises(PolicyError) as caught:
        compile_policy(PolicySource("betcode", (Layer("project", config=config),)))
    assert str(caught.value) == f"layer `project`: {text}"


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"mode": "plan"}, "the betcode dialect has no option `mode`; it has profile, cwd, home, fs"),
        ({"profile": "x"}, "the option `profile` must be `hardened` or `faithful`, not `x`"),
        ({"cwd": "shop"}, "the option `cwd` must be an absolute path, not `shop`"),
        ({"fs": []}, "the option `fs` must be an object from path to fact, not `[]`"),
        ({"fs": {"a": "link"}}, "the fact about `a` must be `file`, `dir` or `-> target`, not `link`"),
    ],
)
def test_a_wrong_option_is_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises(PolicyError) as caught:
        compile_policy(PolicySource("betcode", options=options))
    assert str(caught.value) == text


def test_unknown_members_and_tools_are_left_alone() -> None:
    rules = policy({"allow": ["Nothing(x)", "Bash(ls)"], "defaultMode": "plan"})
    assert rules.evaluate(bash("ls")).verdict is Verdict.ALLOW


@pytest.mark.parametrize("profile", ["faithful", "hardened"])
@pytest.mark.parametrize("line", ["find . | xargs cat", "env CI=1 cat a", "find . -exec cat {} ;"])
def test_a_rule_for_an_inner_command_alone_does_not_cover_what_runs_it(line: str, profile: str) -> None:
    rules = policy({"allow": ["Bash(cat:*)"]}, profile=profile)
    assert rules.evaluate(bash(line)).verdict is Verdict.ASK
