"""The judgement at a claim: what no longer holds is reopened with its reason, or denied, and never runs."""

from __future__ import annotations

import pytest

from ledger.core.errors import AlreadyAnsweredError, DigestMismatchError
from ledger.core.events import Claimed, Event, Opinion, Reopened, Settings
from ledger.core.questions import Runner
from ledger.policy import Verdict
from ledger.session.decision import shown_digest
from tests.support.commands import (
    BOB,
    asks,
    claims,
    grants,
    grants_in_project,
    has_inbox_open,
    opens,
    releases,
    replies,
    revokes,
    revokes_in_project,
)
from tests.support.scenario import T0, Project, Scenario, given, later, ms

HOOK = Runner("claude", "call_1")
ASKED = asks("per_1", "git push")
ALWAYS = asks("per_1", "git push", always=("git push *",))
EDIT = asks("per_1", permission="bash", tool_name="bash", tool_input={"command": "git push"})
DRY = {"command": "git push --dry-run"}
AN_HOUR = Settings(approval_lifetime_ms=ms("1h"))


def reopening(events: tuple[Event, ...]) -> Reopened:
    (event,) = events
    assert isinstance(event, Reopened)
    return event


def said(event: Reopened) -> str:
    assert event.detail is not None
    return event.detail.reason or ""


def is_claimed(events: tuple[Event, ...]) -> bool:
    return [type(one) for one in events] == [Claimed]


class TestRulesOfNow:
    def test_a_new_deny_ends_what_a_person_allowed(self) -> None:
        scenario = given(opens(), ASKED, replies("per_1", "once"), opens({"bash": {"git push": "deny"}}))
        event = reopening(scenario.when(claims(ASKED, HOOK)).events)
        assert (event.verdict, event.cause, event.round) == (Verdict.DENY, "rules", 1)
        assert "the current rules deny it (`bash git push deny`)" in said(event)
        assert scenario.result("per_1").outcome == "denied"

    def test_a_new_deny_is_ignored_where_the_session_says_so(self) -> None:
        scenario = given(opens(settings=Settings(late_denies="ignore")), ASKED, replies("per_1", "once"))
        scenario.given(opens({"bash": "deny"}))
        assert is_claimed(scenario.when(claims(ASKED, HOOK)).events)

    def test_rules_that_ask_now_do_not_undo_a_persons_answer(self) -> None:
        scenario = given(opens(), ASKED, replies("per_1", "once"), opens({"bash": "ask"}))
        assert is_claimed(scenario.when(claims(ASKED, HOOK)).events)

    def test_what_a_rule_allowed_waits_for_a_person_when_the_rules_ask_now(self) -> None:
        scenario = given(opens({"bash": "allow"}), ASKED, opens({"bash": "ask"}))
        event = reopening(scenario.when(claims(ASKED, HOOK)).events)
        assert (event.verdict, event.cause, event.round) == (Verdict.ASK, "rules", 2)
        assert said(event).startswith("the current rules no longer allow it")
        assert scenario.waiting() == ["per_1"]

    def test_what_a_rule_allowed_is_denied_when_the_rules_deny_now(self) -> None:
        scenario = given(opens({"bash": "allow"}), ASKED, opens({"bash": "deny"}))
        event = reopening(scenario.when(claims(ASKED, HOOK)).events)
        assert (event.verdict, event.cause) == (Verdict.DENY, "rules")

    def test_what_a_decider_allowed_still_counts(self) -> None:
        ask = asks("per_1", "git push", opinions=(Opinion("night-shift", Verdict.ALLOW),))
        assert is_claimed(given(opens(), ask).when(claims(ask, HOOK)).events)

    def test_other_rules_that_still_allow_are_no_reason(self) -> None:
        scenario = given(opens({"bash": "allow"}), ASKED, opens({"bash": {"*": "ask", "git *": "allow"}}))
        assert is_claimed(scenario.when(claims(ASKED, HOOK)).events)


class TestGrantsOfNow:
    def test_a_revoked_grant_lifts_nothing(self) -> None:
        scenario = given(opens(), grants("grn_1", "bash", "*"), ASKED, revokes("grn_1"))
        event = reopening(scenario.when(claims(ASKED, HOOK)).events)
        assert (event.verdict, event.cause, event.round) == (Verdict.ASK, "grants", 2)

    def test_an_expired_grant_lifts_nothing(self) -> None:
        scenario = given(opens(), grants("grn_1", "bash", "*", expires_in_ms=ms("1m")), ASKED, later("2m"))
        assert reopening(scenario.when(claims(ASKED, HOOK)).events).cause == "grants"

    def test_a_claim_by_an_expiring_grant_must_be_written_before_it_ends(self) -> None:
        scenario = given(opens(), grants("grn_1", "bash", "*", expires_in_ms=ms("1m")), ASKED)
        assert scenario.decision(claims(ASKED, HOOK)).not_after_ms == T0 + ms("1m") - 1

    def test_another_grant_that_allows_it_is_enough(self) -> None:
        scenario = given(opens(), grants("grn_1", "bash", "*"), ASKED, grants("grn_2", "bash", "git *"))
        assert is_claimed(scenario.given(revokes("grn_1")).when(claims(ASKED, HOOK)).events)

    def test_a_revoked_grant_of_the_project_lifts_nothing(self) -> None:
        scenario = given(opens(project="shop"), grants_in_project("grn_1", "bash", "*"), ASKED, project=Project())
        event = reopening(scenario.given(revokes_in_project("grn_1")).when(claims(ASKED, HOOK)).events)
        assert (event.cause, event.project_version) == ("grants", 2)

    def test_a_persons_own_once_stands_whatever_becomes_of_grants(self) -> None:
        scenario = given(opens(), grants("grn_1", "edit", "*"), ASKED, replies("per_1", "once"), revokes("grn_1"))
        assert is_claimed(scenario.when(claims(ASKED, HOOK)).events)

    @pytest.mark.parametrize("reply", ["session", "always"])
    def test_an_answer_whose_own_grant_was_revoked_does_not_stand(self, reply: str) -> None:
        scenario = given(opens(), ALWAYS).given(replies("per_1", reply))  # type: ignore[arg-type]
        (grant_id,) = scenario.state.grants
        event = reopening(scenario.given(revokes(grant_id)).when(claims(ALWAYS, HOOK)).events)
        assert (event.verdict, event.cause) == (Verdict.ASK, "grants")
        assert said(event) == f"the grant that its `{reply}` made is no longer in force"

    def test_an_always_with_its_grant_in_force_stands(self) -> None:
        scenario = given(opens(), ALWAYS, replies("per_1", "always"))
        assert is_claimed(scenario.when(claims(ALWAYS, HOOK)).events)

    def test_a_request_that_an_always_released_falls_with_its_grant(self) -> None:
        other = asks("per_2", "git push --tags")
        scenario = given(opens(), ALWAYS, other, replies("per_1", "session"))
        (grant_id,) = scenario.state.grants
        event = reopening(scenario.given(revokes(grant_id)).when(claims(other, HOOK)).events)
        assert (event.request_id, event.cause) == ("per_2", "grants")


class TestTheEditedInput:
    def test_an_edited_input_that_the_rules_deny_now_is_shown_again_as_asked(self) -> None:
        scenario = given(opens(), EDIT, replies("per_1", "once", edited=DRY))
        scenario.given(opens({"bash": {"git push --dry-run": "deny"}}))
        event = reopening(scenario.when(claims(EDIT, HOOK)).events)
        assert (event.verdict, event.cause, event.round) == (Verdict.ASK, "edit", 2)
        assert said(event).startswith("the current rules deny the changed input")
        assert scenario.state.pending["per_1"].input == {"command": "git push"}

    def test_a_deny_of_the_asked_input_leaves_the_edited_one(self) -> None:
        scenario = given(opens(), EDIT, replies("per_1", "once", edited=DRY))
        scenario.given(opens({"bash": {"git push": "deny"}}))
        assert is_claimed(scenario.when(claims(EDIT, HOOK)).events)

    def test_an_edit_that_is_too_old_is_asked_again_although_rules_allow_the_asked_input(self) -> None:
        scenario = given(opens(settings=AN_HOUR), EDIT, replies("per_1", "once", edited=DRY))
        scenario.given(opens({"bash": "allow"}), later("2h"))
        event = reopening(scenario.when(claims(EDIT, HOOK)).events)
        assert (event.verdict, event.cause) == (Verdict.ASK, "age")


class TestAge:
    def test_an_answer_that_is_too_old_does_not_stand(self) -> None:
        scenario = given(opens(settings=AN_HOUR), ASKED, replies("per_1", "once"), later("61m"))
        event = reopening(scenario.when(claims(ASKED, HOOK)).events)
        assert (event.verdict, event.cause, event.round) == (Verdict.ASK, "age", 2)
        assert said(event) == "it was allowed more than 3600 seconds ago"

    def test_a_claim_is_written_within_the_lifetime_by_the_servers_clock(self) -> None:
        scenario = given(opens(settings=AN_HOUR), ASKED, replies("per_1", "once"))
        assert scenario.decision(claims(ASKED, HOOK)).not_after_ms == T0 + ms("1h")

    def test_what_the_rules_allow_does_not_age(self) -> None:
        scenario = given(opens({"bash": "allow"}, settings=AN_HOUR), ASKED, later("2h"))
        assert is_claimed(scenario.when(claims(ASKED, HOOK)).events)

    def test_without_the_setting_an_answer_does_not_age(self) -> None:
        scenario = given(opens(), ASKED, replies("per_1", "once"), later("30d"))
        assert is_claimed(scenario.when(claims(ASKED, HOOK)).events)


class TestRounds:
    def reopened(self) -> Scenario:
        scenario = given(opens(settings=AN_HOUR), ASKED, replies("per_1", "once"), later("2h"))
        return scenario.given(claims(ASKED, HOOK))

    def test_the_time_to_answer_begins_again(self) -> None:
        scenario = given(opens(settings=AN_HOUR), ASKED, replies("per_1", "once"), later("2h"))
        scenario.given(has_inbox_open("phone"), claims(ASKED, HOOK))
        assert scenario.deadline_of("per_1") == ms("2h") + ms("60s")

    def test_a_reopened_request_has_another_digest(self) -> None:
        request = self.reopened().state.pending["per_1"]
        assert request.round == 2
        assert shown_digest(request) != request.digest

    def test_an_answer_that_names_no_round_does_not_count(self) -> None:
        scenario = self.reopened()
        scenario.when(replies("per_1", "once")).then_refused(
            DigestMismatchError, "DIGEST_MISMATCH", contains="is in round 2, because it was allowed more than", round=2
        )

    def test_an_answer_to_the_round_before_does_not_count(self) -> None:
        scenario = self.reopened()
        for answer in (replies("per_1", "once", shown=ASKED.question.digest), replies("per_1", "once", round_=1)):
            scenario.when(answer).then_refused(DigestMismatchError, "DIGEST_MISMATCH")

    @pytest.mark.parametrize("named", ["digest", "round"])
    def test_an_answer_to_this_round_counts_and_the_call_may_be_claimed(self, named: str) -> None:
        scenario = self.reopened()
        shown = shown_digest(scenario.state.pending["per_1"])
        answer = replies("per_1", "once", shown=shown) if named == "digest" else replies("per_1", "once", round_=2)
        (claim,) = scenario.given(answer).when(claims(ASKED, HOOK)).events
        assert isinstance(claim, Claimed)
        assert claim.round == 2

    def test_a_second_click_on_the_round_before_is_told_so_after_this_one_is_answered(self) -> None:
        scenario = self.reopened().given(replies("per_1", "once", round_=2))
        scenario.when(replies("per_1", "once", shown=ASKED.question.digest)).then_refused(
            DigestMismatchError, "DIGEST_MISMATCH"
        )
        scenario.when(replies("per_1", "reject", by=BOB, round_=2)).then_refused(
            AlreadyAnsweredError, "ALREADY_ANSWERED"
        )
        scenario.when(replies("per_1", "once", round_=2)).then_nothing_happens()

    def test_in_the_first_round_an_answer_need_name_nothing(self) -> None:
        given(opens(), ASKED).given(replies("per_1", "once"))

    def test_a_pending_request_says_why_it_is_back(self) -> None:
        scenario = self.reopened()
        assert scenario.result("per_1").message == "pending again: it was allowed more than 3600 seconds ago"

    def test_each_reopening_has_a_round_of_its_own(self) -> None:
        scenario = self.reopened().given(replies("per_1", "once", round_=2), later("2h"))
        assert reopening(scenario.when(claims(ASKED, HOOK)).events).round == 3

    def test_an_answer_to_another_request_does_not_release_an_edit_that_is_asked_again(self) -> None:
        scenario = given(opens(settings=AN_HOUR), EDIT, replies("per_1", "once", edited=DRY))
        other = asks("per_2", "npm test", always=("npm *",))
        scenario.given(opens({"bash": {"*": "ask", "git *": "allow"}}), later("2h"), claims(EDIT, HOOK), other)
        scenario.given(replies("per_2", "session"))
        assert scenario.waiting() == ["per_1"], (
            "the rules allow what was asked, and a person had allowed something else"
        )

    def test_a_grant_that_now_allows_it_releases_it(self) -> None:
        scenario = given(opens(project="shop", settings=AN_HOUR), ASKED, replies("per_1", "once"), project=Project())
        scenario.given(later("2h"), claims(ASKED, HOOK), grants_in_project("grn_1", "bash", "git *"), releases("per_1"))
        assert is_claimed(scenario.when(claims(ASKED, HOOK)).events)
