"""A demand for several approvers: k distinct people say yes, none of them the asker, and any no ends the request."""

from __future__ import annotations

from typing import Any, Final

import pytest
from msgspec.structs import replace

from ledger.core.errors import DemandNotMetError, DigestMismatchError, PasskeyRequiredError, StaleReplyError
from ledger.core.event_shapes import MessageDetail
from ledger.core.events import (
    Actor,
    Agreed,
    Cause,
    Expired,
    GrantBounds,
    Imported,
    Opinion,
    Redacted,
    Reopened,
    Replied,
)
from ledger.core.policy import Demand, DemandRule, ReplyKind, Verdict
from ledger.core.questions import Runner
from ledger.session.approvals import approvals_of
from ledger.session.decision import shown_digest
from tests.session.test_demands import of_ann, opens_with
from tests.support.commands import (
    AGENT,
    ANN,
    BOB,
    ROOT,
    asks,
    claims,
    grants,
    grants_in_project,
    opens,
    releases,
    replies,
)
from tests.support.scenario import Project, Scenario, Settle, given, later

TWO: Final = DemandRule(approvers=2, permission="bash", pattern="git push *")
EVE: Final = Actor("person", "eve", "web")
DAN: Final = Actor("person", "dan", "web")
RUNNER: Final = Runner("worker", "per_1")


def waiting(*demands: DemandRule, **more: Any) -> Scenario:
    return given(opens_with(*(demands or (TWO,))), of_ann("per_1", "git push", **more))


def yes(by: Actor, **more: Any) -> Any:
    return replies("per_1", "once", by=by, **more)


def first_yes(scenario: Scenario, needed: int = 2) -> Agreed:
    return Agreed(request_id="per_1", digest=shown_digest(scenario.state.pending["per_1"]), needed=needed)


def approved_by(scenario: Scenario) -> list[str]:
    approvals = approvals_of(scenario.state.pending["per_1"])
    assert approvals is not None
    return [one.by.name for one in approvals.given]


# --- counting ---------------------------------------------------------------------------------------------------------


def test_the_first_yes_is_an_event_and_the_request_stays_pending() -> None:
    scenario = waiting()
    expected = replace(first_yes(scenario), detail=MessageDetail("looks right"))
    scenario.when(yes(BOB, message="looks right")).then(expected)
    assert scenario.waiting() == ["per_1"]
    result = scenario.result("per_1")
    assert (result.outcome, result.message) == (None, "approved by `bob`; waits for 1 more person")


def test_the_yes_that_completes_the_number_is_the_reply_and_names_all_who_approved() -> None:
    scenario = waiting().given(yes(BOB))
    scenario.when(yes(EVE)).then(Replied(request_id="per_1", reply="once", outcome="allowed", approvers=("bob", "eve")))
    assert scenario.state.settled["per_1"].approvers == ("bob", "eve")


def test_nine_of_nine_must_all_say_yes() -> None:
    scenario = waiting(replace(TWO, approvers=9))
    people = [Actor("person", f"p{number}") for number in range(9)]
    for person in people[:-1]:
        scenario.given(yes(person))
    assert scenario.waiting() == ["per_1"]
    (replied,) = scenario.when(yes(people[-1])).events
    assert isinstance(replied, Replied)
    assert replied.approvers == tuple(one.name for one in people)


@pytest.mark.parametrize(
    "again",
    [
        BOB,
        Actor("person", "bob", "link"),
        Actor("person", "bob", "gateway", "tok_2"),
        Actor("person", "BOB", "inbox"),
        Actor("local", "Bob"),
    ],
)
def test_one_person_counts_once_by_whatever_client_token_or_channel(again: Actor) -> None:
    scenario = waiting().given(yes(BOB))
    scenario.when(yes(again)).then_nothing_happens()
    assert scenario.waiting() == ["per_1"]


def test_casefolded_names_are_one_person() -> None:
    scenario = waiting().given(yes(Actor("person", "Straße")))
    scenario.when(yes(Actor("person", "STRASSE"))).then_nothing_happens()


@pytest.mark.parametrize("by", [ANN, AGENT, Actor("person", "Ann", "link"), Actor("local", "claude")])
def test_the_asker_and_the_owner_of_its_token_do_not_count(by: Actor) -> None:
    waiting().when(yes(by)).then_refused(DemandNotMetError, "DEMAND_NOT_MET", contains="`" + by.name)


@pytest.mark.parametrize("kind", ["agent", "system", "service", ""])
def test_nobody_but_people_counts(kind: str) -> None:
    refused = waiting().given(yes(BOB)).when(yes(Actor(kind, "ci")))
    refused.then_refused(DemandNotMetError, "DEMAND_NOT_MET", contains="not a person")


def test_a_told_answer_never_counts() -> None:
    told = yes(Actor("agent", "bridge", "told"), told="editor")
    waiting().given(yes(BOB)).when(told).then_refused(DemandNotMetError, "DEMAND_NOT_MET", contains="only reported")


@pytest.mark.parametrize("reply", ["session", "always"])
@pytest.mark.parametrize("bounds", [None, GrantBounds(uses=1)])
def test_an_answer_that_would_allow_other_calls_is_refused(reply: ReplyKind, bounds: GrantBounds | None) -> None:
    refused = waiting(always=("git push *",)).when(replies("per_1", reply, by=BOB, bounds=bounds))
    refused.then_refused(DemandNotMetError, "DEMAND_NOT_MET", contains="answer `once` or `reject`")


def test_a_changed_input_is_refused_also_where_only_the_changed_call_needs_several() -> None:
    for line in ("git push", "git pull"):
        call: dict[str, Any] = {"tool_name": "bash", "tool_input": {"command": line}}
        scenario = given(opens_with(TWO), of_ann("per_1", line, **call))
        refused = scenario.when(yes(BOB, edited={"command": "git push --force"}))
        refused.then_refused(DemandNotMetError, "DEMAND_NOT_MET", contains="input cannot be changed")


@pytest.mark.parametrize("by", [ANN, BOB, EVE, DAN])
def test_any_no_ends_it(by: Actor) -> None:
    scenario = waiting(replace(TWO, among=("bob", "eve"))).given(yes(BOB))
    scenario.when(replies("per_1", "reject", by=by)).then(
        Replied(request_id="per_1", reply="reject", outcome="rejected")
    )


def test_the_reject_of_another_request_ends_it_too() -> None:
    scenario = waiting().given(yes(BOB), of_ann("per_2", "git pull"), replies("per_2", "reject", by=EVE))
    assert scenario.waiting() == []


def test_two_demands_must_both_be_met_each_among_its_own_people() -> None:
    of_ops = DemandRule(approvers=2, permission="bash", among=("bob", "eve"))
    scenario = waiting(of_ops, replace(TWO, approvers=3)).given(yes(DAN), yes(BOB))
    scenario.given(yes(Actor("person", "fay")))
    assert scenario.waiting() == ["per_1"], "three people, and one of ops"
    more = scenario.when(yes(Actor("person", "gus")))
    more.then_refused(DemandNotMetError, "DEMAND_NOT_MET", contains="still needs `bob` and `eve`")
    (replied,) = scenario.when(yes(EVE)).events
    assert isinstance(replied, Replied)
    assert replied.approvers == ("dan", "bob", "fay", "eve")


def test_only_the_named_people_count() -> None:
    scenario = waiting(replace(TWO, among=("Bob", "eve")))
    refused = scenario.when(yes(DAN))
    refused.then_refused(DemandNotMetError, "DEMAND_NOT_MET", contains="counts only `Bob` and `eve`")
    scenario.given(yes(BOB), yes(EVE))
    assert scenario.waiting() == []


def test_a_repeated_answer_after_the_end_writes_nothing() -> None:
    scenario = waiting().given(yes(BOB), yes(EVE))
    for person in (BOB, EVE):
        scenario.when(yes(person)).then_nothing_happens()


# --- time, rounds, rules ----------------------------------------------------------------------------------------------


def test_a_yes_does_not_move_the_deadline_and_the_last_one_is_late_after_it() -> None:
    scenario = waiting()
    deadline = scenario.deadline_of("per_1")
    scenario.given(later("6d"), yes(BOB))
    assert scenario.deadline_of("per_1") == deadline
    happened = scenario.given(later("2d")).when(Settle())
    assert [type(one) for one in happened.settled] == [] or isinstance(happened.settled[0], Expired)
    scenario.when(yes(EVE)).then_refused(StaleReplyError, "PERMISSION_STALE")


def test_a_yes_to_another_digest_is_refused() -> None:
    waiting().when(yes(BOB, shown="0" * 64)).then_refused(DigestMismatchError, "DIGEST_MISMATCH")


def test_a_new_round_voids_the_given_yeses() -> None:
    rule = opens_with(TWO)
    scenario = given(rule, of_ann("per_1", "git push")).given(yes(BOB), yes(EVE))
    three = replace(TWO, approvers=3)
    scenario.given(opens_with(three)).given(claims(of_ann("per_1", "git push"), RUNNER))
    assert scenario.waiting() == ["per_1"]
    assert scenario.state.pending["per_1"].agreed == ()
    scenario.given(yes(BOB, round_=2), yes(EVE, round_=2))
    assert scenario.waiting() == ["per_1"]
    scenario.given(yes(DAN, round_=2))
    assert scenario.waiting() == []


def test_a_recorded_yes_of_another_round_or_digest_counts_for_nothing() -> None:
    for wrong in ({"round": 2}, {"digest": "0" * 64}):
        scenario = waiting()
        scenario.given(replace(first_yes(scenario), **wrong))
        (event,) = scenario.when(yes(EVE)).events
        assert isinstance(event, Agreed)


def test_a_person_who_was_removed_from_the_rule_before_the_last_yes_does_not_count() -> None:
    of_three = replace(TWO, among=("bob", "eve", "dan"))
    scenario = given(opens(RULES), of_ann("per_1", "git push"), opens_with(of_three)).given(yes(BOB))
    scenario.given(opens_with(replace(TWO, among=("eve", "dan"))), yes(EVE))
    assert scenario.waiting() == ["per_1"]
    scenario.given(yes(DAN))
    assert scenario.waiting() == []


RULES: Final = {"bash": "ask"}


def test_a_demand_that_came_while_the_request_waited_counts() -> None:
    scenario = given(opens(RULES), of_ann("per_1", "git push"), opens_with(TWO)).given(yes(BOB))
    assert scenario.waiting() == ["per_1"]
    scenario.given(yes(EVE))
    assert scenario.waiting() == []


def test_a_demand_that_was_taken_away_still_counts_for_what_was_asked_under_it() -> None:
    scenario = waiting().given(opens(RULES), yes(BOB))
    assert scenario.waiting() == ["per_1"]


def test_a_deny_that_is_newer_than_the_request_ends_it_at_the_first_yes() -> None:
    scenario = waiting().given(opens({"bash": "deny"}))
    (replied,) = scenario.when(yes(BOB)).events
    assert isinstance(replied, Replied)
    assert (replied.outcome, replied.approvers) == ("denied", ())


def test_an_unsigned_yes_does_not_count_once_a_passkey_is_demanded() -> None:
    signed = DemandRule(answer_by="passkey", replies=("once",), permission="bash")
    scenario = waiting().given(yes(BOB), opens_with(TWO, signed))
    scenario.when(yes(EVE)).then_refused(PasskeyRequiredError, "PASSKEY_REQUIRED")
    scenario.when(yes(BOB)).then_refused(PasskeyRequiredError, "PASSKEY_REQUIRED")


# --- what is no person's yes ------------------------------------------------------------------------------------------


def test_no_grant_lifts_such_a_call() -> None:
    scenario = given(opens_with(TWO), grants("grn_1", "bash", "*"), of_ann("per_1", "git push"))
    assert scenario.waiting() == ["per_1"]


def test_no_cascade_of_another_always_releases_it() -> None:
    scenario = waiting().given(yes(BOB), of_ann("per_2", "git pull", always=("git *",)))
    (first, *_) = scenario.when(replies("per_2", "always", by=EVE)).events
    assert isinstance(first, Replied)
    assert scenario.waiting() == ["per_1"]


def test_no_grant_of_the_project_releases_it() -> None:
    scenario = given(
        opens_with(TWO, project="shop"),
        of_ann("per_1", "git push"),
        grants_in_project("grn_1", "bash", "git *"),
        releases(),
        project=Project("shop"),
    )
    assert scenario.waiting() == ["per_1"]


def test_no_grant_releases_what_the_rules_of_now_demand_of_several() -> None:
    scenario = given(opens(RULES), of_ann("per_1", "git push"), opens_with(TWO))
    scenario.given(of_ann("per_2", "git pull", always=("git *",)), replies("per_2", "always", by=EVE))
    assert scenario.waiting() == ["per_1"]


def test_no_decider_allows_it() -> None:
    scenario = waiting(opinions=(Opinion("robot", Verdict.ALLOW),))
    assert scenario.waiting() == ["per_1"]


def test_what_rules_allow_needs_no_yes() -> None:
    scenario = given(opens_with(TWO, rules={"bash": "allow"}), of_ann("per_1", "git push"))
    assert scenario.result("per_1").outcome == "allowed"


def test_yeses_that_were_read_from_a_file_count_for_nothing() -> None:
    scenario = waiting().given(yes(BOB), Imported(versions=3, hash="0" * 64), yes(EVE))
    assert scenario.waiting() == ["per_1"]
    assert approved_by(scenario) == ["eve"]


def test_a_yes_recorded_for_an_agent_counts_for_nothing() -> None:
    scenario = waiting()
    scenario.given(first_yes(scenario))  # by the actor `ledger` of the kind `system`
    scenario.given(yes(BOB))
    assert scenario.waiting() == ["per_1"]


# --- claims -----------------------------------------------------------------------------------------------------------


def test_a_call_that_enough_people_approved_is_claimed() -> None:
    asked = of_ann("per_1", "git push")
    scenario = waiting().given(yes(BOB), yes(ROOT), claims(asked, RUNNER))
    assert scenario.state.settled["per_1"].claim is not None


def test_a_claim_reopens_what_fewer_approved_than_the_rules_now_demand() -> None:
    asked = of_ann("per_1", "git push")
    scenario = given(opens(RULES), asked, yes(BOB), opens_with(TWO))
    (event,) = scenario.when(claims(asked, RUNNER)).events
    assert isinstance(event, Reopened)
    assert (event.verdict, event.cause) == (Verdict.ASK, "rules")
    assert event.detail is not None
    assert event.detail.reason == "2 people must approve it, and `bob` did"


def test_a_claim_reopens_what_people_approved_whom_the_rules_count_no_more() -> None:
    asked = of_ann("per_1", "git push")
    scenario = waiting().given(yes(BOB), yes(EVE), opens_with(replace(TWO, among=("eve", "dan"))))
    (event,) = scenario.when(claims(asked, RUNNER)).events
    assert isinstance(event, Reopened)
    assert event.detail is not None
    assert event.detail.reason == "2 people of `eve` and `dan` must approve it, and `bob` and `eve` did"


def test_a_claim_reopens_what_a_grant_allowed_before_the_rules_demanded_several() -> None:
    asked = of_ann("per_1", "git push")
    scenario = given(opens(RULES), grants("grn_1", "bash", "*"), asked, opens_with(TWO))
    assert scenario.result("per_1").outcome == "allowed"
    (event,) = scenario.when(claims(asked, RUNNER)).events
    assert isinstance(event, Reopened)
    assert event.verdict is Verdict.ASK


def test_a_claim_reopens_what_a_decider_allowed_before_the_rules_demanded_several() -> None:
    asked = of_ann("per_1", "git push", opinions=(Opinion("robot", Verdict.ALLOW),))
    scenario = given(opens(RULES), asked, opens_with(TWO))
    assert scenario.result("per_1").outcome == "allowed"
    (event,) = scenario.when(claims(asked, RUNNER)).events
    assert isinstance(event, Reopened)


def test_a_single_recorded_yes_of_another_program_is_no_allow_at_the_claim() -> None:
    asked = of_ann("per_1", "git push")
    for cause in (None, Cause(kind="grant", grant_id="grn_9")):
        forged = Replied(request_id="per_1", reply="once", outcome="allowed", cause=cause)
        scenario = waiting().given(forged)
        (event,) = scenario.when(claims(asked, RUNNER)).events
        assert isinstance(event, Reopened)


def test_a_folder_that_several_must_allow_waits_for_them() -> None:
    folder = DemandRule(approvers=2, permission="external_directory")
    demand = Demand(approvers=2)
    scenario = given(opens_with(folder), asks("per_1", "/etc/*", permission="external_directory", by=AGENT))
    assert scenario.state.pending["per_1"].demands == (demand,)
    scenario.given(yes(BOB))
    assert scenario.waiting() == ["per_1"]
    scenario.given(yes(EVE))
    assert scenario.result("per_1").outcome == "allowed"


def test_a_redaction_takes_the_message_of_a_yes_and_the_yes_still_counts() -> None:
    scenario = waiting().given(yes(BOB, message="with the token of ops"), yes(EVE), Redacted(versions=(3,)))
    settled = scenario.state.settled["per_1"]
    assert settled.approvers == ("bob", "eve")
    assert [(one.by.name, one.message) for one in settled.request.agreed] == [("bob", None)]
    assert settled.request.redacted


SPELLED: Final = ("Eve", " eve ", "\N{FULLWIDTH LATIN SMALL LETTER E}ve")
"""Spellings of one name."""


@pytest.mark.parametrize("name", SPELLED)
def test_another_spelling_of_a_name_is_no_other_person(name: str) -> None:
    scenario = waiting().given(yes(EVE))
    again = Actor("person", name, "web")
    scenario.when(yes(again)).then_nothing_happens()
    scenario.when(yes(BOB)).then(Replied(request_id="per_1", reply="once", outcome="allowed", approvers=("eve", "bob")))


@pytest.mark.parametrize("name", ["Ann", " ann", "\N{FULLWIDTH LATIN SMALL LETTER A}nn"])
def test_another_spelling_of_the_owner_is_the_owner(name: str) -> None:
    waiting().when(yes(Actor("person", name, "web"))).then_refused(DemandNotMetError, "DEMAND_NOT_MET")


def test_another_spelling_of_a_named_person_does_not_stand_in_for_them() -> None:
    named = DemandRule(approvers=2, permission="bash", among=("bob", "eve"))
    waiting(named).when(yes(Actor("person", SPELLED[2], "web"))).then_refused(DemandNotMetError, "DEMAND_NOT_MET")
