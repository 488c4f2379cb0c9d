"""The chain after the rules (opencode.md, Plugin Integration): tighten anything, loosen an ask only."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given as for_all
from hypothesis import strategies as st

from ledger.core.events import Opinion
from ledger.policy import Verdict, strictest
from ledger.session.judging import with_opinions
from tests.support.commands import asks, grants, opens
from tests.support.scenario import given

ALLOW, ASK, DENY = Verdict.ALLOW, Verdict.ASK, Verdict.DENY
NOTHING = Opinion("quiet")


def says(verdict: Verdict | None, reason: str | None = None) -> Opinion:
    return Opinion("decider", verdict, reason)


OUTCOMES = {Verdict.ALLOW: "allowed", Verdict.ASK: None, Verdict.DENY: "denied"}
# rules, decider, verdict
COMBINATIONS = [
    (ALLOW, None, ALLOW),
    (ALLOW, ALLOW, ALLOW),
    (ALLOW, ASK, ASK),
    (ALLOW, DENY, DENY),
    (ASK, None, ASK),
    (ASK, ALLOW, ALLOW),
    (ASK, ASK, ASK),
    (ASK, DENY, DENY),
    (DENY, None, DENY),
    (DENY, ALLOW, DENY),
    (DENY, ASK, DENY),
    (DENY, DENY, DENY),
]


@pytest.mark.parametrize(("rules", "opinion", "verdict"), COMBINATIONS)
def test_one_decider_tightens_anything_and_loosens_an_ask_only(
    rules: Verdict, opinion: Verdict | None, verdict: Verdict
) -> None:
    scenario = given(opens({"bash": rules.value}), asks("per_1", "ls", opinions=(says(opinion),)))
    assert scenario.result("per_1").outcome == OUTCOMES[verdict]


def test_a_later_decider_may_take_back_what_an_earlier_one_allowed() -> None:
    assert with_opinions(ASK, [says(ALLOW), says(DENY)]) is DENY
    assert with_opinions(ASK, [says(ALLOW), says(ASK)]) is ASK


def test_a_later_decider_may_allow_what_an_earlier_one_wanted_asked() -> None:
    assert with_opinions(ALLOW, [says(ASK), says(ALLOW)]) is ALLOW


def test_a_decider_that_failed_counts_as_it_was_told_to_and_never_as_an_allow() -> None:
    failed = Opinion("slow", ASK, failed="no answer within 1 s")
    scenario = given(opens({"bash": "allow"}), asks("per_1", "ls", opinions=(failed,)))
    assert scenario.waiting() == ["per_1"]


def test_what_each_decider_said_is_recorded_in_their_order() -> None:
    opinions = (NOTHING, says(ASK, "new host"), Opinion("slow", DENY, failed="TimeoutError"))
    scenario = given(opens(), asks("per_1", "ls", opinions=opinions))
    assert scenario.state.settled["per_1"].request.opinions == opinions


def test_a_denial_by_a_decider_says_who_and_why() -> None:
    for opinion, why in [
        (Opinion("net", DENY, "unknown host"), "unknown host"),
        (Opinion("net", DENY, failed="TimeoutError: 1 s"), "TimeoutError: 1 s"),
        (Opinion("net", DENY), "no reason given"),
    ]:
        scenario = given(opens({"bash": "allow"}), asks("per_1", "ls", opinions=(opinion,)))
        assert scenario.result("per_1").message == f"Permission denied by net: {why}"


def test_a_denial_by_the_rules_is_told_in_the_words_of_the_rules() -> None:
    scenario = given(opens({"bash": "deny"}), asks("per_1", "ls", opinions=(says(DENY, "me too"),)))
    assert (scenario.result("per_1").message or "").startswith("The user has specified a rule")


def test_a_decider_may_tighten_what_a_grant_allows_and_then_no_grant_is_named() -> None:
    scenario = given(opens(), grants("grn_1", "bash", "*"), asks("per_1", "ls", opinions=(says(ASK),)))
    assert scenario.waiting() == ["per_1"]
    assert scenario.state.pending["per_1"].grants == ()


@for_all(st.sampled_from(list(Verdict)), st.lists(st.sampled_from([None, *Verdict]), max_size=5).map(tuple))
def test_a_configured_deny_is_final_and_only_an_ask_is_ever_loosened(
    rules: Verdict, said: tuple[Verdict | None, ...]
) -> None:
    verdict = with_opinions(rules, [says(one) for one in said])
    if rules is DENY or DENY in said:
        assert verdict is DENY
    if rules is ALLOW and ASK not in said:
        assert verdict is strictest([rules, *(one for one in said if one)])
    assert with_opinions(rules, [says(one) for one in said if one]) is verdict


def test_without_an_allow_among_them_their_order_does_not_matter() -> None:
    for said in itertools.permutations([says(ASK), says(DENY), NOTHING]):
        assert with_opinions(ALLOW, said) is DENY
