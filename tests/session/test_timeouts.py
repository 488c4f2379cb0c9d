"""betcode.md, Permission Timeout Handling: the two tiers, and the settlement of due requests."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from ledger.core.errors import StaleReplyError
from ledger.core.events import (
    ClientConnected,
    ClientDisconnected,
    DeadlineMoved,
    Expired,
    LockPassed,
    Presence,
    Replied,
    Settings,
)
from ledger.core.limits import PRESENT_COUNT
from ledger.log.plans import SYSTEM
from ledger.session.deadlines import settle
from ledger.session.state import next_due_ms
from tests.support.commands import asks, cancels, connects, disconnects, has_inbox_open, opens, replies
from tests.support.scenario import T0, LosesLease, LosesPresence, Scenario, Settle, given, later, ms

PHONE = Presence("phone", "ann")
MOVED = DeadlineMoved(request_id="per_1", tier="unattended", duration_ms=ms("7d"), present=())
LAPSED = Expired(request_id="per_1", tier="attended", duration_ms=ms("60s"), present=(PHONE,))
EXPIRED = Expired(request_id="per_1", tier="unattended", duration_ms=ms("7d"), present=())
JOINS = ClientConnected(client_id="phone", name="ann")
LOCKED = Settings(answering="lock-holder")


def attended(settings: Settings | None = None) -> Scenario:
    return given(opens(settings=settings), connects("phone"), asks("per_1", "ls"))


def unattended(settings: Settings | None = None) -> Scenario:
    return given(opens(settings=settings), asks("per_1", "ls"))


class TestAttended:
    def test_who_is_connected_has_sixty_seconds(self) -> None:
        scenario = attended()
        assert (scenario.state.pending["per_1"].tier, scenario.deadline_of("per_1")) == ("attended", ms("60s"))

    def test_nothing_is_due_a_millisecond_before(self) -> None:
        attended().when(Settle(), now=T0 + ms("60s") - 1).then_nothing_happens()

    def test_with_somebody_connected_it_expires_in_the_words_of_betcode(self) -> None:
        scenario = attended().when(Settle(), now=T0 + ms("60s")).then(LAPSED)
        result = scenario.result("per_1")
        assert (result.outcome, result.agent, result.by, result.code) == ("expired", "continue", SYSTEM, "EXPIRED")
        assert result.message == "Permission request timed out after 60 seconds."

    def test_reconnecting_does_not_move_the_deadline(self) -> None:
        scenario = attended().given(later("30s"), disconnects("phone"), later("15s"), connects("phone"))
        assert scenario.deadline_of("per_1") == ms("60s")
        scenario.when(Settle(), now=T0 + ms("60s")).then(LAPSED)

    def test_a_second_client_does_not_move_the_deadline(self) -> None:
        assert attended().given(later("30s"), connects("desk")).deadline_of("per_1") == ms("60s")

    def test_with_nobody_connected_it_moves_once_to_the_unattended_tier(self) -> None:
        scenario = attended().given(later("30s"), disconnects("phone"))
        scenario.when(Settle(), now=T0 + ms("61s")).then(MOVED)
        request = scenario.state.pending["per_1"]
        assert (request.tier, scenario.deadline_of("per_1")) == ("unattended", ms("61s") + ms("7d"))
        scenario.when(Settle()).then_nothing_happens()
        scenario.when(Settle(), now=T0 + ms("61s") + ms("7d")).then(EXPIRED)

    def test_once_moved_it_never_goes_back_to_sixty_seconds(self) -> None:
        scenario = attended().given(disconnects("phone"), later("60s"), connects("phone"))
        assert (scenario.state.pending["per_1"].tier, scenario.deadline_of("per_1")) == (
            "unattended",
            ms("60s") + ms("7d"),
        )

    def test_a_lease_that_ran_out_is_written_first_and_then_nobody_is_connected(self) -> None:
        attended(LOCKED).given(LosesLease("phone")).when(Settle(), now=T0 + ms("60s")).then(
            ClientDisconnected(client_id="phone", cause="lease"),
            LockPassed(holder="phone", to=None, cause="disconnect"),
            MOVED,
        )

    def test_of_two_clients_the_one_that_is_there_counts(self) -> None:
        scenario = attended(LOCKED).given(connects("desk"), LosesLease("phone"))
        scenario.when(Settle(), now=T0 + ms("60s")).then(
            ClientDisconnected(client_id="phone", cause="lease"),
            LockPassed(holder="phone", to="desk", cause="disconnect"),
            replace(LAPSED, present=(Presence("desk", "ann"),)),
        )

    def test_where_anyone_may_answer_a_lease_that_ran_out_is_no_event(self) -> None:
        attended().given(LosesLease("phone")).when(Settle(), now=T0 + ms("60s")).then(MOVED)

    @pytest.mark.parametrize("settings", [None, LOCKED])
    def test_unknown_presence_moves_the_deadline_and_never_ends_it(self, settings: Settings | None) -> None:
        scenario = attended(settings).given(LosesPresence())
        scenario.when(Settle(), now=T0 + ms("60s")).then(replace(MOVED, present=None))
        assert list(scenario.state.clients) == ["phone"]

    def test_who_came_after_the_ask_is_somebody_connected(self) -> None:
        scenario = attended().given(connects("desk"), disconnects("phone"))
        scenario.when(Settle(), now=T0 + ms("60s")).then(replace(LAPSED, present=(Presence("desk", "ann"),)))

    def test_an_event_names_a_bounded_number_of_those_present(self) -> None:
        scenario = attended().given(*(connects(f"desk_{number:02}") for number in range(PRESENT_COUNT)))
        (expired,) = scenario.when(Settle(), now=T0 + ms("60s")).events
        assert isinstance(expired, Expired)
        assert expired.present == tuple(Presence(f"desk_{number:02}", "ann") for number in range(PRESENT_COUNT))

    def test_a_lease_that_ran_out_is_not_written_while_nothing_is_due(self) -> None:
        attended().given(LosesLease("phone")).when(Settle(), now=T0 + ms("59s")).then_nothing_happens()

    def test_who_had_the_inbox_open_when_it_was_asked_attends_it(self) -> None:
        scenario = given(opens(), has_inbox_open("phone"), asks("per_1", "ls"))
        scenario.when(Settle(), now=T0 + ms("60s")).then(LAPSED)

    def test_who_closed_the_inbox_since_does_not(self) -> None:
        scenario = given(opens(), has_inbox_open("phone"), asks("per_1", "ls"), LosesLease("phone"))
        scenario.when(Settle(), now=T0 + ms("60s")).then(MOVED)


class TestUnattended:
    def test_with_nobody_connected_there_are_seven_days(self) -> None:
        scenario = unattended()
        assert (scenario.state.pending["per_1"].tier, scenario.deadline_of("per_1")) == ("unattended", ms("7d"))

    def test_it_is_not_denied_after_sixty_seconds(self) -> None:
        unattended().when(Settle(), now=T0 + ms("60s")).then_nothing_happens()

    def test_it_expires_in_the_words_of_betcode(self) -> None:
        scenario = unattended().when(Settle(), now=T0 + ms("7d")).then(EXPIRED)
        assert scenario.result("per_1").message == "Permission request expired after 7 days."

    def test_each_client_that_connects_gives_it_seven_days_again(self) -> None:
        scenario = unattended().given(later("6d"), connects("phone"))
        assert scenario.deadline_of("per_1") == ms("13d")
        assert scenario.given(later("1d"), connects("desk")).deadline_of("per_1") == ms("14d")

    def test_connecting_writes_no_event_for_each_request(self) -> None:
        scenario = unattended().given(asks("per_2", "pwd"), later("1d"))
        assert len(scenario.when(connects("phone")).events) == 1

    def test_so_does_a_client_that_connects_again_although_nobody_saw_it_leave(self) -> None:
        scenario = unattended().given(connects("phone"), later("1d"))
        scenario.when(connects("phone")).then(ClientConnected(client_id="phone", name="ann"))
        assert scenario.deadline_of("per_1") == ms("8d")
        scenario.when(connects("phone")).then_nothing_happens()

    def test_it_never_lives_longer_than_thirty_days_from_the_ask(self) -> None:
        scenario = unattended()
        for _ in range(5):
            scenario.given(later("6d"), connects("phone"), disconnects("phone"))
        assert scenario.now_ms == T0 + ms("30d")
        assert scenario.result("per_1").outcome == "expired"
        assert scenario.state.settled["per_1"].at_ms == T0 + ms("30d")

    def test_what_has_expired_is_not_extended_by_a_client_that_connects_too_late(self) -> None:
        happened = unattended().when(connects("phone"), now=T0 + ms("7d"))
        happened.then_settled_first(EXPIRED)

    def test_it_expires_although_somebody_is_connected(self) -> None:
        scenario = unattended().given(connects("phone"))
        scenario.when(Settle(), now=T0 + ms("7d")).then(replace(EXPIRED, present=(PHONE,)))

    def test_it_expires_also_where_nobody_knows_who_is_connected(self) -> None:
        scenario = unattended().given(LosesPresence())
        scenario.when(Settle(), now=T0 + ms("7d")).then(replace(EXPIRED, present=None))

    def test_a_client_that_gives_less_than_a_minute_is_not_recorded(self) -> None:
        scenario = unattended().given(later("59s"))
        scenario.when(connects("phone")).then_nothing_happens()
        assert scenario.deadline_of("per_1") == ms("7d")
        scenario.given(later("1s")).when(connects("phone")).then(JOINS)
        assert scenario.deadline_of("per_1") == ms("7d") + ms("60s")

    def test_without_a_least_gain_every_connection_counts_as_in_the_specification(self) -> None:
        scenario = unattended(Settings(least_gain_ms=0)).given(later("1s")).when(connects("phone")).then(JOINS)
        assert scenario.deadline_of("per_1") == ms("7d") + ms("1s")
        scenario.when(connects("phone")).then_nothing_happens()

    def test_of_a_short_time_a_tenth_is_enough(self) -> None:
        scenario = unattended(Settings(unattended_ms=ms("50s"))).given(later("4999ms"))
        scenario.when(connects("phone")).then_nothing_happens()
        scenario.when(connects("phone"), now=T0 + ms("5s")).then(JOINS)
        assert scenario.deadline_of("per_1") == ms("55s")

    def test_a_client_gives_no_time_where_the_cap_is_reached(self) -> None:
        scenario = unattended(Settings(unattended_ms=ms("1h"), cap_ms=ms("1h"))).given(later("30m"))
        scenario.when(connects("phone")).then_nothing_happens()


class TestSettings:
    def test_all_numbers_are_the_sessions_own(self) -> None:
        settings = Settings(attended_ms=ms("5s"), unattended_ms=ms("1h"), cap_ms=ms("2h"))
        scenario = attended(settings).given(disconnects("phone"), asks("per_2", "pwd"))
        assert (scenario.deadline_of("per_1"), scenario.deadline_of("per_2")) == (ms("5s"), ms("1h"))
        scenario.given(later("59m"), connects("phone"), later("59m"), connects("desk"))
        assert scenario.deadline_of("per_2") == ms("2h")

    def test_attended_none_never_expires_while_somebody_is_there_or_when_they_leave(self) -> None:
        scenario = attended(Settings(attended_ms=None)).given(disconnects("phone"))
        scenario.when(Settle(), now=T0 + ms("365d")).then_nothing_happens()
        assert next_due_ms(scenario.state) is None

    def test_unattended_none_never_expires(self) -> None:
        scenario = unattended(Settings(unattended_ms=None)).given(later("1d"), connects("phone"))
        scenario.when(Settle(), now=T0 + ms("365d")).then_nothing_happens()

    def test_moved_to_an_unattended_tier_of_none_it_waits_for_ever(self) -> None:
        scenario = attended(Settings(unattended_ms=None)).given(disconnects("phone"))
        scenario.when(Settle(), now=T0 + ms("60s")).then(
            DeadlineMoved(request_id="per_1", tier="unattended", duration_ms=None, present=())
        )
        scenario.when(Settle(), now=T0 + ms("365d")).then_nothing_happens()

    def test_without_a_cap_clients_may_extend_for_ever(self) -> None:
        scenario = unattended(Settings(cap_ms=None))
        for _ in range(6):
            scenario.given(later("6d"), connects("phone"), disconnects("phone"))
        assert scenario.deadline_of("per_1") == ms("43d")

    def test_the_cap_holds_from_the_ask_also_for_what_moved_to_the_unattended_tier(self) -> None:
        scenario = attended(Settings(cap_ms=ms("1h"))).given(disconnects("phone"), later("60s"), Settle())
        assert scenario.deadline_of("per_1") == ms("1h")

    def test_a_request_keeps_the_times_it_was_asked_with(self) -> None:
        scenario = unattended().given(opens(settings=Settings(unattended_ms=ms("1h"), cap_ms=ms("1h"))))
        assert scenario.given(later("1d"), connects("phone")).deadline_of("per_1") == ms("8d")


class TestSettling:
    def test_nothing_is_due_in_an_empty_session(self) -> None:
        given(opens()).when(Settle(), now=T0 + ms("365d")).then_nothing_happens()

    def test_several_end_in_one_append_in_order_of_asking(self) -> None:
        scenario = given(opens(), asks("per_b", "ls"), later("1s"), asks("per_a", "ls"), connects("phone"))
        scenario.given(asks("per_c", "ls"), later("7d"))
        scenario.when(Settle()).then(
            Expired(request_id="per_b", tier="unattended", duration_ms=ms("7d"), present=(PHONE,)),
            Expired(request_id="per_a", tier="unattended", duration_ms=ms("7d"), present=(PHONE,)),
            Expired(request_id="per_c", tier="attended", duration_ms=ms("60s"), present=(PHONE,)),
        )
        assert len({entry.ms for entry in scenario.entries[-3:]}) == 1

    def test_what_is_not_due_yet_waits_on(self) -> None:
        scenario = unattended().given(later("1s"), asks("per_2", "ls"))
        scenario.when(Settle(), now=T0 + ms("7d")).then(EXPIRED)
        assert scenario.waiting() == ["per_2"]

    def test_every_command_first_settles_what_is_due(self) -> None:
        unattended().given(later("7d")).when(asks("per_2", "ls")).then_settled_first(EXPIRED)

    def test_what_was_answered_or_cancelled_is_not_due_any_more(self) -> None:
        scenario = unattended().given(asks("per_2", "ls"), replies("per_1", "once"), cancels("per_2"))
        assert next_due_ms(scenario.state) is None
        scenario.when(Settle(), now=T0 + ms("8d")).then_nothing_happens()

    def test_an_expiry_must_not_be_written_before_the_latest_deadline_it_rests_on(self) -> None:
        scenario = given(opens(), asks("per_1", "ls"), later("1h"), asks("per_2", "ls"), later("8d"))
        settlement = settle(scenario.state, scenario.now_ms, scenario.live)
        assert settlement.not_before_ms == T0 + ms("1h") + ms("7d")

    def test_the_next_deadline_is_the_earliest(self) -> None:
        scenario = given(opens(), asks("per_1", "ls"), connects("phone"), asks("per_2", "ls"))
        assert next_due_ms(scenario.state) == T0 + ms("60s")

    def test_a_dead_worker_delays_an_outcome_and_does_not_change_it(self) -> None:
        late = attended().when(Settle(), now=T0 + ms("3d")).then(LAPSED)
        late.when(replies("per_1", "once")).then_refused(StaleReplyError, "PERMISSION_STALE")

    @pytest.mark.parametrize("settled_at", ["30d", "31d", "365d"])
    def test_settled_only_after_its_cap_what_would_move_expires_at_once(self, settled_at: str) -> None:
        scenario = attended().given(disconnects("phone"))
        scenario.when(Settle(), now=T0 + ms(settled_at)).then(MOVED, EXPIRED)
        scenario.when(Settle()).then_nothing_happens()
        assert scenario.result("per_1").message == "Permission request expired after 7 days."

    def test_such_a_late_expiry_is_not_written_before_the_cap(self) -> None:
        scenario = attended(Settings(cap_ms=ms("90s"))).given(disconnects("phone"), later("2m"))
        settlement = settle(scenario.state, scenario.now_ms, scenario.live)
        assert settlement.not_before_ms == T0 + ms("90s")

    def test_more_than_fits_into_one_append_leaves_in_the_next(self) -> None:
        scenario = given(opens(), *(asks(f"per_{number}", "ls") for number in range(520)), later("7d"))
        first = settle(scenario.state, scenario.now_ms, scenario.live)
        assert (len(first.events), first.more) == (512, True)
        scenario.given(*first.events)
        second = settle(scenario.state, scenario.now_ms, scenario.live)
        assert (len(second.events), second.more) == (8, False)
        scenario.given(Settle())
        assert scenario.waiting() == []

    def test_an_expiry_of_what_was_settled_meanwhile_changes_nothing(self) -> None:
        scenario = unattended().given(replies("per_1", "once"), EXPIRED, MOVED)
        assert scenario.result("per_1").outcome == "allowed"

    def test_a_later_answer_in_the_log_changes_nothing_either(self) -> None:
        late = Replied(request_id="per_1", reply="reject", outcome="rejected")
        assert unattended().given(EXPIRED, late).result("per_1").outcome == "expired"
