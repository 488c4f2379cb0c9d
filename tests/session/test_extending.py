"""More time for an attended request while a person thinks about it: by typing, by an open card, by hand."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from ledger.core.errors import (
    AlreadyAnsweredError,
    DemandNotMetError,
    NoInputLockError,
    NotExtendableError,
    StaleReplyError,
    UnknownRequestError,
)
from ledger.core.events import Actor, DeadlineMoved, Expired, Extending, ExtendReason, Presence, Settings
from ledger.core.policy import DemandRule
from ledger.session.deadlines import latest_deadline_ms
from tests.session.test_demands import PUSHES, opens_with
from tests.support.commands import (
    AGENT,
    ANN,
    BOB,
    asks,
    cancels,
    connects,
    disconnects,
    extends,
    has_inbox_open,
    opens,
    replies,
)
from tests.support.scenario import T0, Scenario, Settle, given, later, ms

PHONE = Presence("phone", "ann")
SEVERAL = DemandRule(approvers=2, permission="bash", pattern="git push *")


def attended(settings: Settings | None = None, **asked: Any) -> Scenario:
    return given(opens(settings=settings), has_inbox_open("phone"), asks("per_1", "ls", **asked))


def moved(reason: ExtendReason, duration: str) -> DeadlineMoved:
    return DeadlineMoved(request_id="per_1", tier="attended", duration_ms=ms(duration), reason=reason)


class TestByItself:
    @pytest.mark.parametrize("reason", ["typing", "open_card"])
    def test_who_writes_or_has_the_card_open_has_five_minutes_from_the_ask(self, reason: ExtendReason) -> None:
        scenario = attended().given(later("50s")).when(extends("per_1", reason)).then(moved(reason, "250s"))
        assert scenario.deadline_of("per_1") == ms("5m")

    @pytest.mark.parametrize("again", ["typing", "open_card"])
    def test_it_happens_once_a_request(self, again: ExtendReason) -> None:
        scenario = attended().given(later("50s"), extends("per_1", "typing"), later("2m"))
        scenario.when(extends("per_1", again, by=BOB)).then_nothing_happens()

    def test_the_end_names_the_whole_time_and_who_was_there(self) -> None:
        scenario = attended().given(extends("per_1", "typing"))
        scenario.when(Settle(), now=T0 + ms("5m") - 1).then_nothing_happens()
        scenario.when(Settle(), now=T0 + ms("5m")).then(
            Expired(request_id="per_1", tier="attended", duration_ms=ms("5m"), present=(PHONE,))
        )
        assert scenario.result("per_1").message == "Permission request timed out after 300 seconds."

    def test_with_nobody_connected_at_the_later_deadline_it_still_moves_to_the_unattended_tier(self) -> None:
        scenario = given(opens(), connects("phone"), asks("per_1", "ls"), extends("per_1", "typing"))
        scenario.given(disconnects("phone")).when(Settle(), now=T0 + ms("5m"))
        assert scenario.state.pending["per_1"].tier == "unattended"

    def test_an_attended_time_of_five_minutes_or_more_is_not_changed(self) -> None:
        attended(Settings(attended_ms=ms("5m"))).when(extends("per_1", "typing")).then_nothing_happens()

    def test_after_five_minutes_by_hand_it_gives_nothing(self) -> None:
        attended().given(extends("per_1")).when(extends("per_1", "typing")).then_nothing_happens()


class TestByHand:
    def test_each_press_gives_five_minutes_more(self) -> None:
        scenario = attended().given(later("10s")).when(extends("per_1")).then(moved("by_hand", "350s"))
        assert scenario.given(extends("per_1")).deadline_of("per_1") == ms("11m")

    def test_of_two_people_who_saw_the_same_deadline_one_extends_it(self) -> None:
        scenario = attended().given(extends("per_1", seen_ms=T0 + ms("60s")))
        scenario.when(extends("per_1", seen_ms=T0 + ms("60s"), by=BOB)).then_nothing_happens()
        assert scenario.deadline_of("per_1") == ms("6m")

    def test_it_ends_a_week_after_the_ask(self) -> None:
        scenario = attended(Settings(attended_ms=ms("7d") - ms("1m")))
        assert scenario.given(extends("per_1")).deadline_of("per_1") == ms("7d")
        scenario.when(extends("per_1")).then_refused(
            NotExtendableError, "NOT_EXTENDABLE", contains="7 days after it was asked"
        )

    def test_it_ends_with_the_sessions_longest_time(self) -> None:
        scenario = attended(Settings(cap_ms=ms("3m")))
        assert scenario.given(extends("per_1")).deadline_of("per_1") == ms("3m")
        scenario.when(extends("per_1")).then_refused(NotExtendableError, "NOT_EXTENDABLE", contains="longest time")


class TestTheWaitOfTheAsker:
    @pytest.mark.parametrize("reason", ["typing", "open_card", "by_hand"])
    def test_no_extension_goes_beyond_it(self, reason: ExtendReason) -> None:
        scenario = attended(waits=90).given(extends("per_1", reason))
        assert scenario.deadline_of("per_1") == ms("90s")

    def test_a_press_at_its_end_is_refused_with_the_time(self) -> None:
        attended(waits=90).given(extends("per_1")).when(extends("per_1")).then_refused(
            NotExtendableError,
            "NOT_EXTENDABLE",
            contains="whoever asked waits until 2027-01-15T08:01:30.000Z and no longer",
            latest_deadline="2027-01-15T08:01:30.000Z",
        )

    def test_a_shorter_one_leaves_the_deadline_as_it_is(self) -> None:
        scenario = attended(waits=20)
        scenario.when(extends("per_1", "typing")).then_nothing_happens()
        assert scenario.deadline_of("per_1") == ms("60s")

    def test_without_one_a_week_and_the_sessions_longest_time_remain(self) -> None:
        assert latest_deadline_ms(attended().state.pending["per_1"]) == T0 + ms("7d")

    def test_another_wait_under_the_same_id_changes_nothing(self) -> None:
        scenario = attended(waits=90)
        scenario.when(asks("per_1", "ls", waits=3600)).then_nothing_happens()
        assert latest_deadline_ms(scenario.state.pending["per_1"]) == T0 + ms("90s")


class TestTheSetting:
    @pytest.mark.parametrize("extending", ["never", "by-hand"])
    def test_typing_extends_only_where_it_is_automatic(self, extending: Extending) -> None:
        attended(Settings(extending=extending)).when(extends("per_1", "typing")).then_refused(
            NotExtendableError, "NOT_EXTENDABLE", contains=f"has `extending` set to `{extending}`"
        )

    def test_nobody_extends_by_hand_where_it_is_never(self) -> None:
        attended(Settings(extending="never")).when(extends("per_1")).then_refused(NotExtendableError, "NOT_EXTENDABLE")

    def test_by_hand_extends_by_hand(self) -> None:
        attended(Settings(extending="by-hand")).when(extends("per_1")).then(moved("by_hand", "360s"))


class TestRefusals:
    def test_an_unattended_request_has_its_own_time(self) -> None:
        scenario = given(opens(), asks("per_1", "ls"))
        scenario.when(extends("per_1")).then_refused(NotExtendableError, "NOT_EXTENDABLE", contains="it is unattended")

    def test_a_request_without_a_deadline_needs_none(self) -> None:
        attended(Settings(attended_ms=None)).when(extends("per_1")).then_refused(
            NotExtendableError, "NOT_EXTENDABLE", contains="it has no deadline"
        )

    def test_at_the_deadline_it_has_expired_first(self) -> None:
        happened = attended().when(extends("per_1", "typing"), now=T0 + ms("60s"))
        happened.then_refused(StaleReplyError, "PERMISSION_STALE")

    def test_an_extension_is_never_written_at_the_deadline_or_later(self) -> None:
        assert attended().decision(extends("per_1")).not_after_ms == T0 + ms("60s") - 1

    def test_an_answered_request_says_who_was_first(self) -> None:
        attended().given(replies("per_1", "once")).when(extends("per_1", by=BOB)).then_refused(
            AlreadyAnsweredError, "ALREADY_ANSWERED", by="ann"
        )

    def test_a_cancelled_request_is_settled(self) -> None:
        attended().given(cancels("per_1")).when(extends("per_1")).then_refused(AlreadyAnsweredError, "ALREADY_ANSWERED")

    def test_an_unknown_request_is_an_error(self) -> None:
        attended().when(extends("per_2")).then_refused(UnknownRequestError, "UNKNOWN_REQUEST")

    def test_where_the_lock_holder_answers_only_that_client_extends(self) -> None:
        locked = Settings(answering="lock-holder")
        scenario = given(opens(settings=locked), connects("phone"), connects("laptop"), asks("per_1", "ls"))
        scenario.when(extends("per_1", client="laptop")).then_refused(NoInputLockError, "NO_INPUT_LOCK")
        scenario.when(extends("per_1", client="phone")).then(moved("by_hand", "360s"))
        scenario.when(extends("per_1", administrator=True)).then(moved("by_hand", "660s"))

    @pytest.mark.parametrize("by", [ANN, AGENT])
    def test_whom_a_rule_keeps_from_answering_does_not_extend(self, by: Actor) -> None:
        asked = replace(asks("per_1", "git push origin"), owner="ann")
        scenario = given(opens_with(PUSHES), has_inbox_open("phone"), asked)
        scenario.when(extends("per_1", by=by, role="approver")).then_refused(
            DemandNotMetError, "DEMAND_NOT_MET", contains="let another person extend it"
        )
        assert scenario.given(extends("per_1", by=BOB, role="approver")).deadline_of("per_1") == ms("6m")

    def test_the_asker_of_what_several_people_must_approve_does_not_extend(self) -> None:
        asked = replace(asks("per_1", "git push origin"), owner="ann")
        scenario = given(opens_with(SEVERAL), has_inbox_open("phone"), asked)
        scenario.when(extends("per_1", by=Actor("person", "Ann"), role="approver")).then_refused(
            DemandNotMetError, "DEMAND_NOT_MET", contains="let another person extend it"
        )
        assert scenario.given(extends("per_1", by=BOB, role="approver")).deadline_of("per_1") == ms("6m")
