"""Dialects by name, and the digest of the policy that judged a call."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ledger.policy
from ledger.policy import DIALECTS, Layer, PolicyError, PolicySource, Rule, Verdict, compile_policy, digest


def source(permission: object, **options: object) -> PolicySource:
    return PolicySource(layers=(Layer("project", config={"permission": permission}),), options=options)


def test_an_unknown_dialect_is_refused_with_the_known_ones() -> None:
    with pytest.raises(PolicyError, match=r"the dialect `cobol` is not known; known are .*`opencode`"):
        compile_policy(PolicySource(dialect="cobol"))


def test_the_registry_has_each_dialect_by_its_own_name() -> None:
    assert [dialect.name for dialect in DIALECTS.values()] == [*DIALECTS]


@pytest.mark.parametrize("dialect", sorted(DIALECTS))
def test_every_dialect_keeps_its_source_and_asks_what_no_rule_allows(dialect: str) -> None:
    empty = PolicySource(dialect=dialect)
    policy = compile_policy(empty)
    assert policy.source == empty
    assert policy.evaluate(ledger.policy.Call("bash", ("rm -rf /",))).verdict is Verdict.ASK
    assert policy.disabled(["bash"]) == frozenset()


def test_a_digest_is_a_sha256_in_lower_case_hex() -> None:
    assert digest(PolicySource()) == digest(PolicySource())
    assert len(digest(PolicySource())) == 64
    assert set(digest(PolicySource())) <= set("0123456789abcdef")


def test_two_files_that_differ_in_the_order_of_keys_have_different_digests() -> None:
    # The order decides: the first denies every bash call, the second allows it.
    assert digest(source({"bash": "allow", "*": "deny"})) != digest(source({"*": "deny", "bash": "allow"}))


def test_the_order_of_options_does_not_change_a_digest() -> None:
    assert digest(source({}, home="/h", agent="a")) == digest(source({}, agent="a", home="/h"))


def test_a_digest_changes_with_whatever_a_verdict_depends_on() -> None:
    rule = Rule("bash", "*", Verdict.ALLOW)
    variants = [
        PolicySource(),
        PolicySource(dialect="other"),
        PolicySource(options={"compat": "v1"}),
        PolicySource(layers=(Layer("a", rules=(rule,)),)),
        PolicySource(layers=(Layer("a", rules=(rule,), trusted=False),)),
        PolicySource(layers=(Layer("a", rules=(Rule("bash", "*", Verdict.ASK),)),)),
    ]
    assert len({digest(variant) for variant in variants}) == len(variants)


configs = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


@given(config=configs)
def test_a_digest_survives_the_way_through_the_log(config: object) -> None:
    original = PolicySource(layers=(Layer("x", config=config, lines={"/permission": 1}),), options={"home": "/é"})
    assert digest(msgspec.json.decode(msgspec.json.encode(original), type=PolicySource)) == digest(original)


def test_what_the_package_exports_is_what_it_names() -> None:
    assert all(hasattr(ledger.policy, name) for name in ledger.policy.__all__)
