from __future__ import annotations

from ledger.core.errors import SessionClosedError, UnknownSessionError
from ledger.core.events import ClientConnected, ClientDisconnected, LockPassed, LockTaken, Presence
from ledger.session import needs_presence
from ledger.session.state import Client
from tests.support.commands import asks, closes, connects, disconnects, has_inbox_open, opens
from tests.support.scenario import T0, LosesLease, Scenario, Settle, given, later, ms

JOINS = ClientConnected(client_id="phone", name="ann")
LEFT = ClientDisconnected(client_id="phone", cause="left")
LEASE_OUT = ClientDisconnected(client_id="phone", cause="lease")


def test_the_first_client_that_connects_takes_the_free_lock() -> None:
    scenario = given(opens(), later("5s")).when(connects("phone")).then(JOINS, LockTaken(client_id="phone"))
    assert dict(scenario.state.clients) == {"phone": Client("phone", "ann", T0 + ms("5s"), 2)}
    assert scenario.state.lock == "phone"


def test_the_second_client_leaves_the_lock_where_it_is() -> None:
    scenario = given(opens(), connects("desk", "bob")).when(connects("phone")).then(JOINS)
    assert scenario.state.lock == "desk"


def test_connecting_again_while_connected_changes_nothing_where_nobody_waits() -> None:
    scenario = given(opens(), connects("phone"), later("1h")).when(connects("phone")).then_nothing_happens()
    assert scenario.state.clients["phone"].since_ms == T0


def test_a_client_whose_lease_ran_out_unnoticed_comes_back_as_one_that_had_left() -> None:
    given(opens(), connects("phone"), LosesLease("phone")).when(connects("phone")).then(
        LEASE_OUT,
        LockPassed(holder="phone", to=None, cause="disconnect"),
        JOINS,
        LockTaken(client_id="phone"),
    )


def test_who_connects_writes_down_who_is_gone_and_takes_the_lock_they_left() -> None:
    scenario = given(opens(), connects("desk", "bob"), LosesLease("desk"))
    scenario.when(connects("phone")).then(
        ClientDisconnected(client_id="desk", cause="lease"),
        LockPassed(holder="desk", to=None, cause="disconnect"),
        JOINS,
        LockTaken(client_id="phone"),
    )


def test_leaving_is_recorded_once() -> None:
    scenario = given(opens(), connects("desk"), connects("phone")).when(disconnects("phone")).then(LEFT)
    assert list(scenario.state.clients) == ["desk"]
    scenario.when(disconnects("phone")).then_nothing_happens()


def test_a_client_that_never_came_cannot_leave() -> None:
    given(opens()).when(disconnects("phone")).then_nothing_happens()


def test_an_ask_writes_down_first_who_is_gone() -> None:
    scenario = given(opens(), connects("phone"), LosesLease("phone"))
    events = scenario.when(asks("per_1", "ls")).events
    assert events[:2] == (LEASE_OUT, LockPassed(holder="phone", to=None, cause="disconnect"))
    assert scenario.state.pending["per_1"].tier == "unattended"


def test_an_ask_that_waits_for_nobody_writes_down_nothing_of_the_kind() -> None:
    scenario = given(opens({"bash": "allow"}), connects("phone"), LosesLease("phone"))
    assert len(scenario.when(asks("per_1", "ls")).events) == 1


def test_who_has_the_inbox_open_is_present_without_holding_the_lock() -> None:
    scenario = given(opens(), has_inbox_open("phone"), asks("per_1", "ls"))
    request = scenario.state.pending["per_1"]
    assert (request.tier, request.present) == ("attended", (Presence("phone", "ann"),))
    assert (list(scenario.state.clients), scenario.state.lock) == (["phone"], None)


def test_who_came_by_the_inbox_takes_the_free_lock_on_opening_the_session() -> None:
    scenario = given(opens(), has_inbox_open("phone"), asks("per_1", "ls"))
    scenario.when(connects("phone")).then(LockTaken(client_id="phone"))
    scenario.when(connects("phone")).then_nothing_happens()


def test_a_client_both_in_the_session_and_in_the_inbox_is_counted_once() -> None:
    scenario = given(opens(), connects("phone"), has_inbox_open("phone"), later("1h"), asks("per_1", "ls"))
    assert scenario.state.pending["per_1"].present == (Presence("phone", "ann"),)
    assert scenario.state.clients["phone"].since_ms == T0


def test_pending_requests_are_replayed_to_who_connects_in_order_of_asking() -> None:
    scenario = given(opens(), asks("per_c", "a"), asks("per_a", "b"), asks("per_b", "c"), connects("phone"))
    assert scenario.waiting() == ["per_c", "per_a", "per_b"]


def test_leases_are_looked_at_only_when_the_outcome_depends_on_them() -> None:
    scenario = given(opens(), connects("phone"), asks("per_1", "ls"))
    assert not needs_presence(scenario.state, T0 + ms("60s") - 1)
    assert needs_presence(scenario.state, T0 + ms("60s"))
    assert not needs_presence(given(opens(), asks("per_1", "ls")).state, T0 + ms("8d"))


def test_a_session_that_is_not_open_takes_no_client() -> None:
    Scenario().when(connects("phone")).then_refused(UnknownSessionError, "UNKNOWN_SESSION")
    given(opens(), closes()).when(connects("phone")).then_refused(SessionClosedError, "SESSION_CLOSED")


def test_a_client_may_leave_a_closed_session() -> None:
    given(opens(), connects("desk"), connects("phone"), closes()).when(disconnects("phone")).then(LEFT)


def test_a_disconnection_in_the_log_of_who_was_not_there_changes_nothing() -> None:
    scenario = given(opens(), connects("desk"), LEFT)
    assert (list(scenario.state.clients), scenario.state.lock) == (["desk"], "desk")
    scenario.when(Settle()).then_nothing_happens()
