"""Evaluations of the dialect `claude` beside the verdict: parts, grants, proposals, modes, layers, and errors."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.policy import Call, Evaluation, Grant, Layer, PolicyError, PolicySource, Verdict, compile_policy
from ledger.policy.checks import MappedFacts
from ledger.policy.claude import ClaudePolicy
from ledger.policy.toolrules import ToolGrant

CWD, HOME = "/home/ann/shop", "/home/ann"


def policy(permissions: dict[str, Any], name: str = "project", **options: Any) -> ClaudePolicy:
    layer = Layer(name, config={"permissions": permissions})
    made = compile_policy(PolicySource("claude", (layer,), {"cwd": CWD, "home": HOME, **options}))
    assert isinstance(made, ClaudePolicy)
    return made


def bash(command: str) -> Call:
    return Call("Bash", (), "Bash", {"command": command})


def told(found: Evaluation) -> list[tuple[str, str]]:
    return [(part.text, part.verdict.value) for part in found.parts]


def test_a_line_has_one_part_for_each_sub_command_that_the_program_judges() -> None:
    rules = policy({"allow": ["Bash(good *)"]}, profile="faithful")
    found = rules.evaluate(bash("good x | head -3 && other y > out.txt"))
    assert told(found) == [("good x", "allow"), ("head -3", "allow"), ("other y > out.txt", "ask")]
    assert told(rules.evaluate(bash("good $(x)"))) == [("good $(x)", "ask")]


def test_the_hardened_profile_appends_the_commands_inside_that_decided() -> None:
    rules = policy({"allow": ["Bash(sudo *)", "Bash(ls)"], "deny": ["Bash(rm *)"]})
    found = rules.evaluate(bash("ls; bash -c 'rm x'"))
    assert found.verdict is Verdict.DENY
    assert ("rm x", "deny", "bash -c 'rm x'") in [
        (part.text, part.verdict.value, getattr(part, "inside", None)) for part in found.parts
    ]
    assert found.message == "Denied by rule: Bash(rm *)"


def test_the_hardened_profile_proposes_nothing_for_programs_whose_arguments_may_run_something() -> None:
    call = bash("git push x; mytool run y")
    assert policy({}, profile="faithful").evaluate(call).always == ("Bash(git push *)", "Bash(mytool run *)")
    assert policy({}).evaluate(call).always == ("Bash(mytool run *)",)


def test_what_is_proposed_allows_the_same_call_again() -> None:
    rules = policy({}, profile="faithful")
    calls = [bash(line) for line in ("mytool run x", "mytool --x", "a b; c d", "cd /tmp && mytool run x")]
    calls += [Call("mcp__a__b", (), "mcp__a__b", {}), Call("WebFetch", (), "WebFetch", {"url": "http://x.test/"})]
    for call in calls:
        asked = rules.evaluate(call)
        tool = call.tool_name or ""
        granted = [Grant(f"g{number}", tool, entry) for number, entry in enumerate(asked.always)]
        if tool == "Bash" and "/tmp" in call.input["command"]:  # the file is asked about, and a grant is no path rule
            continue
        assert (asked.verdict, rules.evaluate(call, granted).verdict) == (Verdict.ASK, Verdict.ALLOW), call


def test_a_grant_comes_after_the_rules() -> None:
    rules = policy({"ask": ["Bash(mytool push *)"], "deny": ["Bash(rm *)"]}, profile="faithful")
    whole = [Grant("g", "Bash", "Bash")]
    found = {line: rules.evaluate(bash(line), whole).verdict.value for line in ("mytool x", "mytool push x", "rm x")}
    assert found == {"mytool x": "allow", "mytool push x": "ask", "rm x": "deny"}
    denied = [ToolGrant("h", "mcp__a__b", "mcp__a__b", action=Verdict.DENY)]
    assert rules.evaluate(Call("mcp__a__b", (), "mcp__a__b", {}), denied).verdict is Verdict.DENY


words = st.sampled_from(["tool", "push", "x"])
lines = st.lists(st.lists(words, min_size=1, max_size=3).map(" ".join), min_size=1, max_size=3).map("; ".join)
patterns = st.sampled_from(["Bash(tool *)", "Bash(tool push)", "tool *", "x", "Bash(x*)", "Read"])


@given(line=lines, pattern=patterns, profile=st.sampled_from(["faithful", "hardened"]))
def test_a_grant_lifts_a_recorded_part_exactly_when_a_fresh_evaluation_allows_it(
    line: str, pattern: str, profile: str
) -> None:
    rules = policy({"ask": ["Bash(tool push)"]}, profile=profile)
    grant = Grant("g", "Bash", pattern)
    asked, fresh = rules.evaluate(bash(line)), rules.evaluate(bash(line), [grant])
    lifted = [rules.lifts(grant, "Bash", part) for part in asked.parts]
    assert lifted == [part.verdict is Verdict.ALLOW for part in fresh.parts]


def test_a_tool_is_disabled_by_a_deny_rule_without_a_specifier() -> None:
    rules = policy({"deny": ["Bash", "Write(*)", "mcp__github", "Read(x)"], "allow": ["Bash(npm test)"]})
    tools = ["Bash", "Write", "Read", "mcp__github__get", "mcp__other__get"]
    assert rules.disabled(tools) == frozenset({"Bash", "Write", "mcp__github__get"})


@pytest.mark.parametrize(
    ("mode", "verdicts"),
    [
        ("default", ["allow", "ask", "ask", "ask", "ask", "deny"]),
        ("acceptEdits", ["allow", "allow", "ask", "allow", "ask", "deny"]),
        ("plan", ["allow", "ask", "ask", "ask", "ask", "deny"]),
        ("dontAsk", ["allow", "deny", "deny", "deny", "deny", "deny"]),
        ("bypassPermissions", ["allow", "allow", "allow", "allow", "ask", "deny"]),
    ],
)
def test_a_mode_says_what_becomes_of_an_ask(mode: str, verdicts: list[str]) -> None:
    rules = policy({"ask": ["Bash(git add *)"], "deny": ["Edit(secret/**)"]}, profile="faithful", mode=mode)
    calls = [
        bash("ls"),
        bash("mkdir new"),
        bash("other"),
        Call("Write", (), "Write", {"file_path": "a.txt"}),
        bash("git add x"),
        Call("Write", (), "Write", {"file_path": "secret/a.txt"}),
    ]
    assert [rules.evaluate(call).verdict.value for call in calls] == verdicts


def test_all_layers_count_and_a_folder_that_is_not_trusted_allows_nothing() -> None:
    layers = (
        Layer("user", config={"permissions": {"deny": ["Bash(a *)"]}}),
        Layer(
            "project",
            config={"permissions": {"allow": ["Bash(a *)", "Bash(b *)"], "ask": ["Bash(c *)"]}},
            trusted=False,
        ),
        Layer("managed", config={"permissions": {"allow": ["Bash(c *)", "Bash(d *)"]}}),
    )
    rules = compile_policy(PolicySource("claude", layers, {"cwd": CWD, "home": HOME}))
    found = {name: rules.evaluate(bash(f"{name} x")).verdict.value for name in "abcd"}
    assert found == {"a": "deny", "b": "ask", "c": "ask", "d": "allow"}


@pytest.mark.parametrize(
    ("layer", "denied"),
    [
        ("project", f"{CWD}/src/x"),
        ("local", f"{CWD}/src/x"),
        ("user", f"{HOME}/.claude/src/x"),
        ("managed", "/etc/claude-code/src/x"),
        ("flag", None),
    ],
)
def test_a_pattern_with_one_slash_begins_where_its_settings_file_belongs(layer: str, denied: str | None) -> None:
    places = [f"{CWD}/src/x", f"{HOME}/.claude/src/x", "/etc/claude-code/src/x", "/src/x"]
    rules = policy({"deny": ["Read(/src/**)"]}, layer)
    found = [
        path for path in places if rules.evaluate(Call("Read", (), "Read", {"file_path": path})).verdict is Verdict.DENY
    ]
    assert found == ([denied] if denied else [])


def test_facts_may_be_handed_in_and_those_of_the_source_come_first() -> None:
    rules = policy({"deny": ["Read(.env)"]})
    call = Call("Read", (), "Read", {"file_path": "link"})
    linked = MappedFacts({"link": "-> .env"}, CWD)
    assert rules.evaluate(call).verdict is Verdict.ALLOW
    found = rules.with_facts(linked).evaluate(call)
    assert (found.verdict, found.message) == (Verdict.DENY, f"Permission to read {CWD}/link has been denied.")
    assert policy({"deny": ["Read(.env)"]}, fs={}).with_facts(linked).evaluate(call).verdict is Verdict.ALLOW


def test_a_call_may_name_its_own_working_directory() -> None:
    rules = policy({"allow": ["Edit(src/**)"]}, cwd="/repo")
    calls = [Call("Edit", (), "Edit", {"file_path": "src/a"}, cwd=cwd) for cwd in ("/repo/", "/elsewhere/")]
    found = [told(rules.evaluate(call)) for call in calls]
    assert found == [[("/repo/src/a", "allow")], [("/elsewhere/src/a", "ask")]]


def test_cd_is_judged_by_where_it_leads() -> None:
    fs = {"sub": "dir", "out": "-> /etc", "f": "file"}
    rules = policy({"allow": ["Bash(mytool *)"], "deny": ["Edit(sub/q)"]}, fs=fs)
    lines = [
        "cd sub && mytool x",
        "cd out && mytool x",
        "cd .. && mytool x",
        "cd sub && mytool x > q",
        "cd f && mytool x",
    ]
    assert [rules.evaluate(bash(line)).verdict.value for line in lines] == ["allow", "ask", "ask", "deny", "ask"]


def test_a_line_is_judged_whatever_stands_in_it() -> None:
    rules = policy({"allow": ["Bash"], "deny": ["Bash(rm *)"]})
    lines = [
        "",
        "# only a comment",
        "ls '",
        "rm x '",
        "ls $(",
        "x" * 70_000,
        "ls \u200b",
        "\ud800",
        "((((",
        "a" + " && a" * 3_000,
    ]
    assert [rules.evaluate(bash(line)).verdict.value for line in lines] == [
        "allow", "allow", "ask", "deny", "ask", "ask", "ask", "ask", "ask", "allow",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"edition": "x"}, "the claude dialect has no option `edition`; it has profile, cwd, home, mode, fs"),
        ({"mode": 1}, "the option `mode` must be `default` or `acceptEdits` or `plan` or `dontAsk` or `bypassPermissions`, not `1`"),
    ],
)  # fmt: skip
def test_a_wrong_option_is_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises(PolicyError) as caught:
        compile_policy(PolicySource("claude", options=options))
    assert str(caught.value) == text
