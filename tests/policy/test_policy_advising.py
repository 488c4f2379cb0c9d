"""Advice of `policy explain`: a rule for exactly the call, which lifts no deny; and sentences that are true."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ledger.policy import Call, Layer, Policy, PolicySource, Verdict, compile_policy, strictest
from ledger.policy.check_questions import JudgedCall, call_of
from ledger.policy.dialects import dialect_named
from ledger.policy.explanation import Explanation, explain

FLAT = ("opencode", "brutus")
PATTERNS = (
    "git *",
    "git push *",
    "git push",
    "git push --force *",
    "rm *",
    "rm -rf *",
    "rm x",
    "python -m *",
    "sudo *",
    "*",
)
COMMANDS = (
    "git", "git log", "git push", "git push origin", "git push --force", "git push --force x", "git push -f", "rm x",
    "rm -rf x", "rm -rf /", "rm *.log", "rm a && git push", "rm x && rm -rf x", "python -m x", "sudo rm x",
    "git log $(rm x)", "/bin/rm x", "make", "cat a > b",
)  # fmt: skip

Rules = list[tuple[str, str]]
rules_of: st.SearchStrategy[Rules] = st.lists(
    st.tuples(st.sampled_from(PATTERNS), st.sampled_from(["allow", "ask", "deny"])), max_size=5
)


def config_of(dialect: str, rules: Rules) -> dict[str, Any]:
    """The rules in a dialect's own form; Codelia has no ask."""
    if dialect in FLAT:
        return {"permission": {"bash": dict(rules)}}
    if dialect == "codelia":
        lists: dict[str, list[Any]] = {"allow": [], "deny": []}
        for pattern, action in rules:
            if action in lists:
                glob = {} if pattern == "*" else {"command_glob": pattern}
                lists[action].append({"tool": "bash", **glob})
        return {"permissions": lists}
    named = {
        action: ["Bash" if pattern == "*" else f"Bash({pattern})" for pattern, one in rules if one == action]
        for action in ("allow", "ask", "deny")
    }
    return {"permissions": named}


def policy_of(dialect: str, *configs: Any, profile: str = "hardened", **options: Any) -> Policy:
    layers = tuple(Layer(name, config=config) for name, config in zip(("project", "local"), configs, strict=False))
    return compile_policy(PolicySource(dialect, layers, {"cwd": "/repo", "home": "/h", "profile": profile, **options}))


def call_for(dialect: str, command: str) -> Call:
    return call_of({"dialect": dialect, "tool": dialect_named(dialect).language.shell, "input": {"command": command}})


def explained(policy: Policy, call: Call) -> Explanation:
    return explain(policy, call, compile_policy)


def verdict(policy: Policy, call: Call) -> Verdict:
    return JudgedCall(policy, call).verdict


any_question = given(
    dialect=st.sampled_from(["opencode", "brutus", "betcode", "claude", "codelia"]),
    profile=st.sampled_from(["hardened", "faithful"]),
    rules=rules_of,
    command=st.sampled_from(COMMANDS),
)


@pytest.mark.slow
@any_question
def test_advice_allows_the_call_and_loosens_no_other(dialect: str, profile: str, rules: Rules, command: str) -> None:
    config = config_of(dialect, rules)
    before, call = policy_of(dialect, config, profile=profile), call_for(dialect, command)
    for fix in explained(before, call).fixes:
        if fix.config is None:
            continue
        after = policy_of(dialect, config, fix.config, profile=profile)
        assert verdict(after, call) is fix.verdict
        # The parts of the line are named by the advice too, and so may be judged otherwise.
        parts = {call.input["command"], *_parts(before, dialect, command)}
        for other in (*COMMANDS, f"{command} y", f"{command} --force", f"timeout 5 {command}", f"{command} && make"):
            old, new = verdict(before, call_for(dialect, other)), verdict(after, call_for(dialect, other))
            if old is Verdict.DENY:
                assert new is Verdict.DENY, other
            elif fix.verdict is Verdict.DENY or not {*_parts(before, dialect, other)} & parts:
                assert strictest((old, new)) is new, other


def _parts(policy: Policy, dialect: str, command: str) -> list[str]:
    found = [part.text for one in JudgedCall(policy, call_for(dialect, command)).all for part in one.parts]
    return [*found, command, command.removeprefix("timeout 5 ")]


@any_question
@example(dialect="codelia", profile="hardened", rules=[("rm *", "allow"), ("*", "deny")], command="rm -rf /")
def test_what_is_said_about_other_rules_is_so(dialect: str, profile: str, rules: Rules, command: str) -> None:
    policy, call = policy_of(dialect, config_of(dialect, rules), profile=profile), call_for(dialect, command)
    for near in explained(policy, call).near:
        action = near.rule.action.value
        alone = config_of(dialect, [(near.rule.pattern, action)])
        speaks = {name for name in ("hardened", "faithful") if _speaks(policy_of(dialect, alone, profile=name), call)}
        if not near.matches:
            assert near.why == "it is for the same program and does not match"
            assert profile not in speaks
            assert near.rule.pattern.split(" ")[0] in re.findall(r"[a-z]+", command)
        elif near.why.endswith(" decides"):
            winner = near.why.split("`")[1]
            parts = [part for one in JudgedCall(policy, call).all for part in one.parts]
            assert any(ref.text == winner for part in parts for ref in part.rules)
            # Of two reasons the rule that decides is named first: this allow would not count for `rm -rf /` either.
            assert profile in speaks or (action == "allow" and speaks == {"faithful"})
        elif near.why == "it matches, but it does not decide":
            assert action != "allow"
            assert profile in speaks
        elif " by itself in this line" in near.why:
            assert speaks <= {"hardened"} - {profile}
        else:
            assert "not honour" in near.why
            assert action == "allow"
            assert verdict(policy, call) is not Verdict.ALLOW
            assert speaks == {"faithful"} or profile in speaks


def _speaks(policy: Policy, call: Call) -> bool:
    """Return whether the only rule of a policy decides about any part of a call."""
    judged = JudgedCall(policy, call)
    return bool(judged.rules) or any(part.rules for one in judged.all for part in one.parts)


def test_beside_a_deny_exactly_the_call_is_advised() -> None:
    policy = policy_of("opencode", config_of("opencode", [("rm -rf *", "deny")]))
    [allowing, denying] = explained(policy, call_for("opencode", "rm x")).fixes
    assert (allowing.text, allowing.config) == ("to allow it, add", {"permission": {"bash": {"rm x": "allow"}}})
    assert (denying.text, denying.config) == ("to deny it, add", {"permission": {"bash": {"rm x": "deny"}}})


@pytest.mark.parametrize("dialect", ["opencode", "brutus", "betcode", "claude", "codelia"])
def test_no_rule_is_advised_that_would_lift_a_deny(dialect: str) -> None:
    policy = policy_of(dialect, config_of(dialect, [("rm *", "deny")]))
    [fix] = explained(policy, call_for(dialect, "rm x")).fixes
    rule = policy.evaluate(call_for(dialect, "rm x")).rules[0].text
    assert fix.config is None
    assert fix.text == f"it is denied by `{rule}` (layer project); no rule is suggested that would lift a deny"


def test_the_advised_rule_stands_below_the_one_that_asks() -> None:
    policy = policy_of("opencode", config_of("opencode", [("git *", "allow"), ("git push *", "ask")]))
    fix = explained(policy, call_for("opencode", "git push x")).fixes[0]
    assert fix.text == "to allow it, add below `bash git push * ask` (layer project)"


def test_where_a_known_key_keeps_its_place_the_place_is_said_in_words() -> None:
    policy = policy_of("opencode", config_of("opencode", [("rm x", "ask"), ("rm *", "ask")]))
    fix = explained(policy, call_for("opencode", "rm x")).fixes[0]
    assert fix.config is None
    assert fix.text == (
        'to allow it, write `"rm x": "allow"` under `bash` below `bash rm * ask` (layer project), and nowhere above: '
        "the last match wins"
    )


def test_an_action_for_a_whole_permission_is_kept_beside_the_advised_rule() -> None:
    config = {"permission": {"*": "allow", "bash": "ask"}}
    fix = explained(policy_of("opencode", config), call_for("opencode", "rm x")).fixes[0]
    assert fix.config == {"permission": {"bash": {"*": "ask", "rm x": "allow"}}}
    assert verdict(policy_of("opencode", config, fix.config), call_for("opencode", "rm y")) is Verdict.ASK


def test_a_part_that_is_denied_behind_one_that_is_asked_is_not_lifted() -> None:
    policy = policy_of("brutus", config_of("brutus", [("rm *", "deny")]), profile="faithful")
    fix = explained(policy, call_for("brutus", "make && rm a")).fixes[0]
    assert (fix.verdict, fix.config) == (Verdict.ALLOW, None)


@pytest.mark.parametrize(
    ("dialect", "tool", "value", "because"),
    [
        ("opencode", "bash", {"command": "rm *.log"}, "`*` in a rule matches any text, so no rule names `rm *.log` alone"),
        ("claude", "WebFetch", {"url": "https://e.com/x"}, "the narrowest rule, `WebFetch(domain:e.com)`, covers every page there"),
        ("opencode", "webfetch", {"url": "https://e.com/x"}, "the narrowest rule covers every call of `webfetch`"),
        ("codelia", "edit", {"path": "a"}, "the narrowest rule covers every call of `edit`"),
        ("claude", "mcp__a__b", {}, "the narrowest rule covers every call of `mcp__a__b`"),
        (
            "opencode", "bash", {"command": "sudo rm x"},
            "`sudo` runs other commands: a rule for it does not cover what it runs",
        ),
    ],
)  # fmt: skip
def test_where_no_rule_is_for_exactly_the_call_that_is_said(
    dialect: str, tool: str, value: dict[str, Any], because: str
) -> None:
    call = call_of({"dialect": dialect, "tool": tool, "input": value})
    fix = explained(policy_of(dialect, config_of(dialect, [])), call).fixes[0]
    assert (fix.config, fix.text) == (None, f"no rule allows it, because {because}; a person may answer `once`")


@pytest.mark.parametrize("dialect", ["betcode", "claude"])
def test_an_ask_rule_stands_before_any_allow_where_it_does(dialect: str) -> None:
    policy = policy_of(dialect, config_of(dialect, [("git push *", "ask")]))
    fix = explained(policy, call_for(dialect, "git push x")).fixes[0]
    assert (fix.config, fix.text) == (
        None,
        "no rule allows it, because `Bash(git push *)` (layer project) comes before it; a person may answer `once`",
    )


@pytest.mark.parametrize(
    ("dialect", "tool", "value", "config"),
    [
        ("opencode", "edit", {"filePath": "/repo/a.ts"}, {"permission": {"edit": {"a.ts": "allow"}}}),
        ("claude", "Write", {"file_path": "/repo/a.ts"}, {"permissions": {"allow": ["Edit(//repo/a.ts)"]}}),
        ("betcode", "Write", {"file_path": "/repo/a[1].ts"}, {"permissions": {"allow": ["Write(//repo/a\\[1].ts)"]}}),
        (
            "codelia", "skill_load", {"name": "deploy"},
            {"permissions": {"allow": [{"tool": "skill_load", "skill_name": "deploy"}]}},
        ),
        (
            "brutus", "bash", {"command": "rm /etc/x"},
            {"permission": {"external_directory": {"/etc/x": "allow"}, "bash": {"rm /etc/x": "allow"}}},
        ),
    ],
)  # fmt: skip
def test_the_narrowest_rule_of_other_calls_is_advised(
    dialect: str, tool: str, value: dict[str, Any], config: dict[str, Any]
) -> None:
    call = call_of({"dialect": dialect, "tool": tool, "input": value})
    assert explained(policy_of(dialect, config_of(dialect, [])), call).fixes[0].config == config


def test_a_rule_that_the_profile_passes_over_is_told_with_the_reason() -> None:
    policy = policy_of("opencode", config_of("opencode", [("python -m *", "allow")]))
    [near] = explained(policy, call_for("opencode", "python -m x")).near
    assert near.matches
    assert near.why == (
        "it matches, but the hardened profile does not honour it: `x` is a program that the rule does not name"
    )
