"""Codelia's rules against a slow reference written from the specification, and the laws of both profiles."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ledger.policy import Verdict, strictest
from ledger.policy.codelia.rule import split
from tests.policy.codelia import reference
from tests.policy.codelia.codelia_calls import ROOT, bash, grant, judge, policy, tool

ORDER = [Verdict.ALLOW, Verdict.ASK, Verdict.DENY]
WORDS = [
    "ls",
    "rm",
    "git",
    "push",
    "a b",
    "x",
    "-f",
    "..",
    "sub",
    "cd",
    "cd sub",
    "cd ..",
    "*",
    "?s",
    "2",
    "$x",
    "`ls`",
]
SEPARATORS = [
    " ",
    "  ",
    ";",
    "|",
    "||",
    "&&",
    "|&",
    ">",
    ">>",
    "2>",
    "2>>",
    "<",
    "&",
    "\n",
    "'",
    '"',
    "\\",
    "\u00a0",
    "#",
]

noise = st.text(alphabet="ab2 \t'\"\\;|&<>*?", max_size=12)
lines = st.one_of(
    st.lists(st.one_of(st.sampled_from(WORDS), st.sampled_from(SEPARATORS), st.just(" ")), max_size=10).map("".join),
    noise,
)
heads = st.sampled_from(["ls", "rm", "git", "git push", "cd", "a", "git push -f"])
patterns = st.one_of(
    st.sampled_from(["*", "ls*", "git *", "*rm*", "* > *", "ls", "g?t*", "*;*"]), st.text("ab *?;", max_size=5)
)
rule_parts: dict[str, Any] = {"command": heads, "command_glob": patterns.filter(str.strip)}
rules = st.lists(st.fixed_dictionaries({"tool": st.sampled_from(["bash", "shell"])}, optional=rule_parts), max_size=4)
roots = st.sampled_from([ROOT, None])
commands = st.lists(heads.map(lambda head: {"tool": "bash", "command": head}), max_size=4)


@given(line=lines)
def test_a_line_is_split_as_the_reference_splits_it(line: str) -> None:
    found = split(line)
    assert (found.text, [tuple(segment) for segment in found.segments]) == (
        reference.normalise(line),
        reference.segments(reference.normalise(line)),
    )


@pytest.mark.slow
@given(line=lines, allow=rules, deny=rules, root=roots)
@settings(max_examples=300)
def test_a_command_is_judged_as_the_reference_judges_it(line: str, allow: Any, deny: Any, root: str | None) -> None:
    faithful = policy(allow, deny, profile="faithful", sandbox_root=root)
    assert judge(line, faithful).verdict.value == reference.judge_command(line, allow, deny, ROOT, root)


skills = st.sampled_from(["review", "danger"])
tool_rules = st.lists(
    st.one_of(
        st.fixed_dictionaries({"tool": st.sampled_from(["read", "write"])}),
        st.fixed_dictionaries({"tool": st.just("skill_load")}, optional={"skill_name": skills}),
    ),
    max_size=4,
)


@given(name=st.sampled_from(["read", "write", "skill_load"]), skill=skills, allow=tool_rules, deny=tool_rules)
def test_another_tool_is_judged_as_the_reference_judges_it(name: str, skill: str, allow: Any, deny: Any) -> None:
    value = {"name": skill}
    for profile in ("faithful", "hardened"):
        found = policy(allow, deny, profile=profile).evaluate(tool(name, value))
        assert found.verdict.value == reference.judge_tool(name, value, allow, deny)


@given(line=lines, allow=rules, deny=rules, root=roots, granted=commands)
@settings(max_examples=300)
def test_the_hardened_profile_is_never_looser_than_the_faithful_one(
    line: str, allow: Any, deny: Any, root: str | None, granted: Any
) -> None:
    grants = tuple(grant(rule, f"g{number}") for number, rule in enumerate(granted))
    faithful, hardened = (
        judge(line, policy(allow, deny, profile=profile, sandbox_root=root), grants)
        for profile in ("faithful", "hardened")
    )
    assert ORDER.index(hardened.verdict) >= ORDER.index(faithful.verdict)
    for evaluation in (faithful, hardened):
        if evaluation.parts:
            assert evaluation.verdict is strictest(part.verdict for part in evaluation.parts)
        assert (evaluation.message is not None) is (evaluation.verdict is Verdict.DENY)
        assert evaluation.verdict is Verdict.ALLOW or evaluation.reason


@given(line=lines, allow=rules, deny=rules, more=rules)
def test_another_deny_never_loosens_a_verdict(line: str, allow: Any, deny: Any, more: Any) -> None:
    for profile in ("faithful", "hardened"):
        before = judge(line, policy(allow, deny, profile=profile, sandbox_root=ROOT)).verdict
        after = judge(line, policy(allow, [*more, *deny], profile=profile, sandbox_root=ROOT)).verdict
        assert ORDER.index(after) >= ORDER.index(before)


@pytest.mark.slow
@given(line=lines, allow=rules, deny=rules, granted=commands)
@settings(max_examples=300)
def test_a_request_whose_parts_are_all_lifted_is_allowed_when_it_is_asked_again(
    line: str, allow: Any, deny: Any, granted: Any
) -> None:
    grants = tuple(grant(rule, f"g{number}") for number, rule in enumerate(granted))
    for profile in ("faithful", "hardened"):
        rules = policy(allow, deny, profile=profile, sandbox_root=ROOT)
        asked = judge(line, rules)
        open_parts = [part for part in asked.parts if part.verdict is not Verdict.ALLOW]
        if open_parts and all(any(rules.lifts(one, "bash", part) for one in grants) for part in open_parts):
            assert judge(line, rules, grants).verdict is Verdict.ALLOW


@given(line=lines.filter(lambda line: "\n" not in line), allow=rules, root=roots)
@example(line="2;", allow=[{"tool": "bash", "command_glob": "?;"}], root=ROOT)
def test_every_rule_that_the_hardened_profile_offers_to_remember_lifts_a_part(
    line: str, allow: Any, root: str | None
) -> None:
    # Codelia folds line ends, so that its parts are then no commands; those are allowed when the call is asked again.
    rules = policy(allow, sandbox_root=root)
    asked = rules.evaluate(bash(line))
    for text in asked.always:
        assert any(rules.lifts(grant(json.loads(text)), "bash", part) for part in asked.parts)
