"""The policy against a slow reference written from the specification, and the laws that hold for any rules."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ledger.policy import (
    Call,
    Grant,
    Layer,
    PolicySource,
    Rule,
    Verdict,
    compile_policy,
    evaluate,
    strictest,
)

# --- the reference: opencode-zh.md 4.1, 4.2, and section 1 of opencode.md, one sentence at a time -----------------


def reference_match(value: str, pattern: str) -> bool:
    value, pattern = value.replace("\\", "/"), pattern.replace("\\", "/")
    if pattern.endswith(" *") and walk(value, pattern[:-2]):
        return True
    return walk(value, pattern)


def walk(value: str, pattern: str) -> bool:
    if not pattern:
        return not value
    if pattern[0] == "*":
        return any(walk(value[skipped:], pattern[1:]) for skipped in range(len(value) + 1))
    return bool(value) and pattern[0] in ("?", value[0]) and walk(value[1:], pattern[1:])


def reference_action(permission: str, pattern: str, rules: list[Rule]) -> str:
    action = "ask"
    for rule in rules:
        if reference_match(permission, rule.permission) and reference_match(pattern, rule.pattern):
            action = rule.action.value
    return action


def reference_verdict(call: Call, rules: list[Rule], grants: list[Grant], order: str, compat: str) -> str:
    if order == "key-length":
        rules = sorted(rules, key=lambda r: (len(r.permission), r.permission, len(r.pattern), r.pattern))
    approved = [Rule(grant.permission, grant.pattern, Verdict.ALLOW) for grant in grants]
    actions = []
    for pattern in call.patterns:
        configured = reference_action(call.permission, pattern, rules)
        with_grants = reference_action(call.permission, pattern, rules + approved)
        final = compat == "v2" and configured == "deny"
        actions.append(configured if final else with_grants)
    return "deny" if "deny" in actions else "ask" if "ask" in actions else "allow"


# --- what is compared ---------------------------------------------------------------------------------------------

permissions = st.sampled_from(["bash", "edit", "b", "*", "b*", "?ash", "e d"])
patterns = st.text(alphabet="ab*? /\\", max_size=6)
rules = st.lists(st.builds(Rule, permissions, patterns, st.sampled_from(Verdict)), max_size=6)
grants = st.lists(st.builds(Grant, st.just("g"), permissions, patterns), max_size=3)
calls = st.builds(Call, permissions, st.lists(patterns, min_size=1, max_size=3).map(tuple))
orders, compats = st.sampled_from(["insertion", "key-length"]), st.sampled_from(["v1", "v2"])


def source(ruleset: list[Rule], **options: str) -> PolicySource:
    # What hardened adds to a `bash` pattern is compared in tests/policy/opencode.
    options = {"profile": "faithful", "compat": "v2", **options}
    return PolicySource(layers=(Layer("rules", rules=tuple(ruleset)),), options=options)


@given(call=calls, ruleset=rules, granted=grants, order=orders, compat=compats)
def test_the_policy_gives_the_verdict_of_the_reference(
    call: Call, ruleset: list[Rule], granted: list[Grant], order: str, compat: str
) -> None:
    policy = compile_policy(source(ruleset, order=order, compat=compat))
    expected = reference_verdict(call, ruleset, granted, order, compat)
    assert policy.evaluate(call, granted).verdict.value == expected


@given(call=calls, ruleset=rules)
def test_evaluating_one_pattern_finds_the_rule_of_the_reference(call: Call, ruleset: list[Rule]) -> None:
    found = evaluate(call.permission, call.patterns[0], ruleset)
    assert found.action.value == reference_action(call.permission, call.patterns[0], ruleset)


@given(call=calls, ruleset=rules, granted=grants)
def test_the_verdict_is_the_strictest_of_the_parts_in_any_order(
    call: Call, ruleset: list[Rule], granted: list[Grant]
) -> None:
    policy = compile_policy(source(ruleset))
    judged = policy.evaluate(call, granted)
    assert judged.verdict is strictest(part.verdict for part in judged.parts)
    backwards = policy.evaluate(Call(call.permission, call.patterns[::-1]), granted)
    assert (backwards.verdict, backwards.parts) == (judged.verdict, judged.parts[::-1])


STRICTNESS = [Verdict.ALLOW, Verdict.ASK, Verdict.DENY]


@given(call=calls, ruleset=rules, granted=grants, denied=st.tuples(permissions, patterns), compat=compats)
def test_a_deny_added_at_the_end_never_loosens_a_verdict(
    call: Call, ruleset: list[Rule], granted: list[Grant], denied: tuple[str, str], compat: str
) -> None:
    before = compile_policy(source(ruleset, compat=compat)).evaluate(call, granted)
    longer = [*ruleset, Rule(*denied, Verdict.DENY)]
    after = compile_policy(source(longer, compat=compat)).evaluate(call, granted)
    assert STRICTNESS.index(after.verdict) >= STRICTNESS.index(before.verdict)


@given(call=calls, ruleset=rules, granted=grants, denied=st.tuples(permissions, patterns, st.integers(0, 6)))
def test_a_deny_added_anywhere_never_loosens_a_verdict_in_v2(
    call: Call, ruleset: list[Rule], granted: list[Grant], denied: tuple[str, str, int]
) -> None:
    permission, pattern, place = denied
    before = compile_policy(source(ruleset)).evaluate(call, granted)
    longer = [*ruleset[:place], Rule(permission, pattern, Verdict.DENY), *ruleset[place:]]
    after = compile_policy(source(longer)).evaluate(call, granted)
    assert STRICTNESS.index(after.verdict) >= STRICTNESS.index(before.verdict)


@given(call=calls, ruleset=rules, granted=grants)
def test_grants_never_loosen_a_configured_deny_in_v2(call: Call, ruleset: list[Rule], granted: list[Grant]) -> None:
    policy = compile_policy(source(ruleset))
    alone, together = policy.evaluate(call), policy.evaluate(call, granted)
    assert [part for part in alone.parts if part.verdict is Verdict.DENY] == [
        part for part in together.parts if part.verdict is Verdict.DENY
    ]


@given(call=calls, ruleset=rules, grant=st.builds(Grant, st.just("g"), permissions, patterns), compat=compats)
def test_a_grant_lifts_a_recorded_ask_exactly_when_a_fresh_evaluation_allows_it(
    call: Call, ruleset: list[Rule], grant: Grant, compat: str
) -> None:
    policy = compile_policy(source(ruleset, compat=compat))
    asked = policy.evaluate(call).parts
    fresh = policy.evaluate(call, [grant]).parts
    for before, after in zip(asked, fresh, strict=True):
        if before.verdict is Verdict.ASK:
            assert policy.lifts(grant, call.permission, before) is (after.verdict is Verdict.ALLOW)
