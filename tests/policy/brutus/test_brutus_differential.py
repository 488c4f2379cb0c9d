"""BRUTUS's rules against a slow reference written from the specification, and the laws of both profiles."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.policy import Call, Grant, Verdict, strictest
from ledger.policy.brutus import arity_prefix
from tests.policy.brutus import reference
from tests.policy.brutus.brutus_calls import PROFILES, PROJECT, bash, policy
from tests.policy.brutus.reference import Rule

ORDER = [Verdict.ALLOW, Verdict.ASK, Verdict.DENY]

permissions = st.sampled_from(["bash", "edit", "b", "*", "b*", "bash*", "?ash", "é", "ed?t"])
patterns = st.text(alphabet="ab*? /\\\n", max_size=6)
actions = st.sampled_from(["allow", "ask", "deny"])
rules = st.lists(st.tuples(permissions, patterns, actions), max_size=6)
approvals = st.lists(st.tuples(permissions, patterns, st.just("allow")), max_size=3)
words = st.sampled_from(
    ["git", "push", "rm", "/etc/x", "../y", "cd", "aws", "s3", "npm", "run", "-rf", "a", "bun", "config"]
)
commands = st.lists(st.lists(words, min_size=1, max_size=4), min_size=1, max_size=4)
line_rules = st.lists(
    st.tuples(
        st.sampled_from(["bash", "*", "b*"]), st.sampled_from(["*", "git *", "rm *", "* a", "cd *", "aws*"]), actions
    ),
    max_size=5,
)


def as_grants(approved: list[Rule]) -> tuple[Grant, ...]:
    return tuple(Grant(f"g{number}", permission, pattern) for number, (permission, pattern, _) in enumerate(approved))


@given(value=patterns, pattern=patterns)
def test_a_wildcard_matches_as_the_reference(value: str, pattern: str) -> None:
    asked = policy([["x", pattern, "allow"]], profile="faithful").evaluate(Call("x", (value,)))
    assert (asked.verdict is Verdict.ALLOW) is reference.match(value, pattern)


@given(permission=permissions, asked=st.lists(patterns, min_size=1, max_size=3), config=rules, approved=approvals)
@settings(max_examples=300)
def test_a_call_is_judged_as_the_reference_judges_it(
    permission: str, asked: list[str], config: list[Rule], approved: list[Rule]
) -> None:
    faithful = policy([list(rule) for rule in config], profile="faithful")
    found = faithful.evaluate(Call(permission, tuple(asked)), as_grants(approved))
    assert found.verdict.value == reference.ask(permission, asked, config, approved)
    assert found.verdict is not Verdict.ASK or found.verdict is strictest(part.verdict for part in found.parts)


@given(tokens=st.lists(words, max_size=5))
def test_an_arity_prefix_is_that_of_the_reference(tokens: list[str]) -> None:
    assert list(arity_prefix(tokens)) == reference.arity_prefix(tokens)


@given(asked=commands, config=line_rules)
def test_a_bash_line_asks_what_the_reference_asks(asked: list[list[str]], config: list[Rule]) -> None:
    line = " && ".join(map(" ".join, asked))
    found = policy([list(rule) for rule in config], profile="faithful").evaluate(bash(line))
    outside = [path for call in found.ask_first for path in call.patterns]
    patterns, always, wanted = reference.bash(asked, PROJECT)
    assert ([part.text for part in found.parts], list(found.always), outside) == (patterns, always, wanted)
    assert found.verdict.value == reference.ask("bash", patterns, config, [])


@given(asked=commands, config=line_rules, approved=st.lists(st.sampled_from(["git*", "rm*", "*", "cd*"]), max_size=2))
def test_the_hardened_profile_is_never_looser_than_the_faithful_one(
    asked: list[list[str]], config: list[Rule], approved: list[str]
) -> None:
    line = " && ".join(map(" ".join, asked))
    grants = as_grants([("bash", pattern, "allow") for pattern in approved])
    faithful, hardened = (
        policy([list(rule) for rule in config], profile=p).evaluate(bash(line), grants) for p in PROFILES
    )
    assert ORDER.index(hardened.verdict) >= ORDER.index(faithful.verdict)
    assert hardened.verdict is strictest(part.verdict for part in hardened.parts)
    assert {path for call in faithful.ask_first for path in call.patterns} <= {
        path for call in hardened.ask_first for path in call.patterns
    }


@given(asked=commands, config=line_rules, approved=st.lists(st.sampled_from(["git*", "rm*", "*", "cd*"]), max_size=2))
def test_a_request_whose_parts_are_all_lifted_is_allowed_when_it_is_asked_again(
    asked: list[list[str]], config: list[Rule], approved: list[str]
) -> None:
    line = " && ".join(map(" ".join, asked))
    grants = as_grants([("bash", pattern, "allow") for pattern in approved])
    for profile in PROFILES:
        rules = policy([list(rule) for rule in config], profile=profile)
        first = rules.evaluate(bash(line))
        open_parts = [part for part in first.parts if part.verdict is not Verdict.ALLOW]
        if open_parts and all(any(rules.lifts(one, "bash", part) for one in grants) for part in open_parts):
            assert rules.evaluate(bash(line), grants).verdict is Verdict.ALLOW
