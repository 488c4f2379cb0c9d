from __future__ import annotations

import pytest
from msgspec.structs import replace

from ledger.core.errors import SessionClosedError, UnknownSessionError
from ledger.core.events import (
    Asked,
    ClientConnected,
    ClientDisconnected,
    Expired,
    LockPassed,
    LockTaken,
    Presence,
    Settings,
)
from ledger.core.limits import RECORDED_CLIENTS_COUNT
from ledger.session.commands import PresenceWantedError
from ledger.session.deadlines import needs_presence
from ledger.session.decide import decide
from ledger.session.state import Client
from tests.support.commands import asks, closes, connects, disconnects, has_inbox_open, opens
from tests.support.scenario import T0, LosesLease, LosesPresence, Scenario, Settle, given, later, ms

JOINS = ClientConnected(client_id="phone", name="ann")
LEFT = ClientDisconnected(client_id="phone", cause="left")
LOCKED = Settings(answering="lock-holder")
LEASE_OUT = ClientDisconnected(client_id="phone", cause="lease")


class TestAnyoneMayAnswer:
    """Presence is no history: connections are leases, and events only where they change a deadline."""

    def test_connecting_renewing_and_leaving_write_nothing_where_nothing_waits(self) -> None:
        scenario = given(opens())
        for command in (connects("phone"), connects("phone"), disconnects("phone"), connects("phone")):
            scenario.when(command).then_nothing_happens()
        scenario.given(LosesLease("phone")).when(connects("desk", "bob")).then_nothing_happens()
        assert (dict(scenario.state.clients), scenario.state.lock) == ({}, None)

    def test_they_write_nothing_where_what_waits_has_a_person_connected(self) -> None:
        scenario = given(opens(), connects("phone"), asks("per_1", "ls"), later("30s"))
        for command in (disconnects("phone"), connects("phone"), connects("desk", "bob")):
            scenario.when(command).then_nothing_happens()

    def test_a_client_that_extends_what_waits_unattended_is_recorded(self) -> None:
        scenario = given(opens(), asks("per_1", "ls"), later("1d"))
        scenario.when(connects("phone")).then(JOINS)
        assert dict(scenario.state.clients) == {"phone": Client("phone", "ann", T0 + ms("1d"), 3)}
        assert scenario.state.lock is None

    def test_its_leaving_and_its_lost_lease_change_no_deadline_and_are_not(self) -> None:
        scenario = given(opens(), asks("per_1", "ls"), later("1d"), connects("phone"))
        scenario.when(disconnects("phone")).then_nothing_happens()
        assert [type(event) for event in scenario.when(asks("per_2", "ls")).events] == [Asked]
        assert scenario.state.pending["per_2"].tier == "unattended"

    def test_who_is_on_record_and_gone_attends_nothing(self) -> None:
        scenario = given(opens(), asks("per_1", "ls"), later("1d"), connects("phone"), LosesLease("phone"))
        scenario.given(asks("per_2", "ls"))
        request = scenario.state.pending["per_2"]
        assert (request.tier, request.present) == ("unattended", ())

    def test_an_ask_finds_who_is_present_and_records_them(self) -> None:
        scenario = given(opens(), connects("phone"), has_inbox_open("desk"), asks("per_1", "ls"))
        request = scenario.state.pending["per_1"]
        assert (request.tier, request.present) == ("attended", (Presence("desk", "ann"), Presence("phone", "ann")))

    def test_an_ask_where_nobody_knows_who_is_present_has_the_longer_time(self) -> None:
        scenario = given(opens(), connects("phone"), LosesPresence(), asks("per_1", "ls"))
        assert (scenario.state.pending["per_1"].tier, scenario.deadline_of("per_1")) == ("unattended", ms("7d"))

    def test_an_ask_that_a_person_must_answer_wants_the_leases_and_another_does_not(self) -> None:
        scenario = given(opens({"bash": "allow"}))
        policy = scenario.policy
        allowed = replace(asks("per_1", "ls"), policy=policy)
        assert len(decide(scenario.state, allowed, T0).events) == 1
        waits = replace(asks("per_1", "ls", permission="edit"), policy=policy)
        with pytest.raises(PresenceWantedError):
            decide(scenario.state, waits, T0)

    def test_a_client_in_the_log_is_not_taken_off_it_by_leaving(self) -> None:
        scenario = given(opens(), JOINS, LockTaken(client_id="phone"))
        scenario.when(disconnects("phone")).then_nothing_happens()
        assert [type(event) for event in scenario.when(asks("per_1", "ls")).events] == [Asked]
        assert [type(event) for event in scenario.when(Settle(), now=T0 + ms("7d")).events] == [Expired]

    def test_asks_name_devices_without_end_and_the_state_keeps_a_bounded_number(self) -> None:
        scenario = given(opens())
        for number in range(RECORDED_CLIENTS_COUNT + 2):
            device = f"device_{number}"
            scenario.given(connects(device), asks(f"per_{number}", "ls"), disconnects(device))
        assert len(scenario.state.clients) == RECORDED_CLIENTS_COUNT


class TestTheHolderOfTheLockAnswers:
    """Connections are events, since the input lock depends on them."""

    def test_the_first_client_that_connects_takes_the_free_lock(self) -> None:
        scenario = (
            given(opens(settings=LOCKED), later("5s")).when(connects("phone")).then(JOINS, LockTaken(client_id="phone"))
        )
        assert dict(scenario.state.clients) == {"phone": Client("phone", "ann", T0 + ms("5s"), 2)}
        assert scenario.state.lock == "phone"

    def test_the_second_client_leaves_the_lock_where_it_is(self) -> None:
        scenario = given(opens(settings=LOCKED), connects("desk", "bob")).when(connects("phone")).then(JOINS)
        assert scenario.state.lock == "desk"

    def test_connecting_again_while_connected_changes_nothing_where_nobody_waits(self) -> None:
        scenario = (
            given(opens(settings=LOCKED), connects("phone"), later("1h")).when(connects("phone")).then_nothing_happens()
        )
        assert scenario.state.clients["phone"].since_ms == T0

    def test_a_client_whose_lease_ran_out_unnoticed_comes_back_as_one_that_had_left(self) -> None:
        given(opens(settings=LOCKED), connects("phone"), LosesLease("phone")).when(connects("phone")).then(
            LEASE_OUT,
            LockPassed(holder="phone", to=None, cause="disconnect"),
            JOINS,
            LockTaken(client_id="phone"),
        )

    def test_who_connects_writes_down_who_is_gone_and_takes_the_lock_they_left(self) -> None:
        scenario = given(opens(settings=LOCKED), connects("desk", "bob"), LosesLease("desk"))
        scenario.when(connects("phone")).then(
            ClientDisconnected(client_id="desk", cause="lease"),
            LockPassed(holder="desk", to=None, cause="disconnect"),
            JOINS,
            LockTaken(client_id="phone"),
        )

    def test_leaving_is_recorded_once(self) -> None:
        scenario = (
            given(opens(settings=LOCKED), connects("desk"), connects("phone")).when(disconnects("phone")).then(LEFT)
        )
        assert list(scenario.state.clients) == ["desk"]
        scenario.when(disconnects("phone")).then_nothing_happens()

    def test_a_client_that_never_came_cannot_leave(self) -> None:
        given(opens()).when(disconnects("phone")).then_nothing_happens()

    def test_an_ask_writes_down_first_who_is_gone(self) -> None:
        scenario = given(opens(settings=LOCKED), connects("phone"), LosesLease("phone"))
        events = scenario.when(asks("per_1", "ls")).events
        assert events[:2] == (LEASE_OUT, LockPassed(holder="phone", to=None, cause="disconnect"))
        assert scenario.state.pending["per_1"].tier == "unattended"

    def test_an_ask_that_waits_for_nobody_writes_down_nothing_of_the_kind(self) -> None:
        scenario = given(opens({"bash": "allow"}), connects("phone"), LosesLease("phone"))
        assert len(scenario.when(asks("per_1", "ls")).events) == 1

    def test_who_has_the_inbox_open_is_present_without_holding_the_lock(self) -> None:
        scenario = given(opens(settings=LOCKED), has_inbox_open("phone"), asks("per_1", "ls"))
        request = scenario.state.pending["per_1"]
        assert (request.tier, request.present) == ("attended", (Presence("phone", "ann"),))
        assert (list(scenario.state.clients), scenario.state.lock) == (["phone"], None)

    def test_who_came_by_the_inbox_takes_the_free_lock_on_opening_the_session(self) -> None:
        scenario = given(opens(settings=LOCKED), has_inbox_open("phone"), asks("per_1", "ls"))
        scenario.when(connects("phone")).then(LockTaken(client_id="phone"))
        scenario.when(connects("phone")).then_nothing_happens()

    def test_a_client_both_in_the_session_and_in_the_inbox_is_counted_once(self) -> None:
        scenario = given(
            opens(settings=LOCKED), connects("phone"), has_inbox_open("phone"), later("1h"), asks("per_1", "ls")
        )
        assert scenario.state.pending["per_1"].present == (Presence("phone", "ann"),)
        assert scenario.state.clients["phone"].since_ms == T0

    def test_pending_requests_are_replayed_to_who_connects_in_order_of_asking(self) -> None:
        scenario = given(
            opens(settings=LOCKED), asks("per_c", "a"), asks("per_a", "b"), asks("per_b", "c"), connects("phone")
        )
        assert scenario.waiting() == ["per_c", "per_a", "per_b"]

    def test_leases_are_looked_at_only_when_the_outcome_depends_on_them(self) -> None:
        scenario = given(opens(settings=LOCKED), connects("phone"), asks("per_1", "ls"))
        assert not needs_presence(scenario.state, T0 + ms("60s") - 1)
        assert needs_presence(scenario.state, T0 + ms("60s"))
        unattended = given(opens(settings=LOCKED), asks("per_1", "ls")).state
        assert not needs_presence(unattended, T0 + ms("7d") - 1)
        assert needs_presence(unattended, T0 + ms("7d"))  # who was present is recorded

    def test_a_session_that_is_not_open_takes_no_client(self) -> None:
        Scenario().when(connects("phone")).then_refused(UnknownSessionError, "UNKNOWN_SESSION")
        given(opens(settings=LOCKED), closes()).when(connects("phone")).then_refused(
            SessionClosedError, "SESSION_CLOSED"
        )

    def test_a_client_may_leave_a_closed_session(self) -> None:
        given(opens(settings=LOCKED), connects("desk"), connects("phone"), closes()).when(disconnects("phone")).then(
            LEFT
        )

    def test_a_disconnection_in_the_log_of_who_was_not_there_changes_nothing(self) -> None:
        scenario = given(opens(settings=LOCKED), connects("desk"), LEFT)
        assert (list(scenario.state.clients), scenario.state.lock) == (["desk"], "desk")
        scenario.when(Settle()).then_nothing_happens()
