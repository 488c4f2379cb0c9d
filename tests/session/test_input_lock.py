"""betcode.md, Background (the input lock), with the passing of it as DESIGN settles it."""

from __future__ import annotations

import pytest

from ledger.core.errors import NoInputLockError, SessionClosedError
from ledger.core.events import (
    ClientConnected,
    ClientDisconnected,
    Expired,
    LockPassed,
    LockRequested,
    LockTaken,
    Presence,
    Replied,
    Settings,
)
from ledger.session.state import LockRequest, next_due_ms
from tests.support.commands import (
    ROOT,
    asks,
    closes,
    connects,
    disconnects,
    has_inbox_open,
    opens,
    passes_lock,
    replies,
    takes_lock,
)
from tests.support.scenario import T0, LosesLease, LosesPresence, Scenario, Settle, given, later, ms

LOCKED = Settings(answering="lock-holder")
PHONE, DESK = Presence("phone", "ann"), Presence("desk", "ann")
WANTED = LockRequested(client_id="desk", duration_ms=ms("10s"))


def two_clients() -> Scenario:
    """The phone holds the lock."""
    return given(opens(settings=LOCKED), connects("phone"), connects("desk"))


def three_clients() -> Scenario:
    return two_clients().given(connects("tablet"))


class TestTaking:
    def test_a_free_lock_is_taken_at_once(self) -> None:
        scenario = given(opens(settings=LOCKED), has_inbox_open("phone"), asks("per_1", "ls"))
        scenario.when(takes_lock("phone")).then(LockTaken(client_id="phone"))

    def test_who_holds_it_has_nothing_to_take(self) -> None:
        two_clients().when(takes_lock("phone")).then_nothing_happens()

    def test_a_lock_that_is_held_is_asked_for_and_passes_after_ten_seconds(self) -> None:
        scenario = two_clients().when(takes_lock("desk")).then(WANTED)
        assert scenario.state.lock_request == LockRequest("desk", T0 + ms("10s"))
        assert (scenario.state.lock, next_due_ms(scenario.state)) == ("phone", T0 + ms("10s"))
        scenario.when(Settle(), now=T0 + ms("10s") - 1).then_nothing_happens()
        scenario.when(Settle(), now=T0 + ms("10s")).then(LockPassed(holder="phone", to="desk", cause="request"))
        assert scenario.state.lock == "desk"
        assert scenario.state.lock_request is None

    def test_asking_for_it_again_changes_nothing(self) -> None:
        scenario = two_clients().given(takes_lock("desk"), later("5s")).when(takes_lock("desk")).then_nothing_happens()
        assert scenario.state.lock_request == LockRequest("desk", T0 + ms("10s"))

    def test_one_client_asks_at_a_time(self) -> None:
        three_clients().given(takes_lock("desk")).when(takes_lock("tablet")).then_refused(
            NoInputLockError,
            "NO_INPUT_LOCK",
            contains="client `desk` has asked for the input lock before",
            holder="phone",
        )

    def test_who_is_not_connected_cannot_take_it(self) -> None:
        two_clients().when(takes_lock("tablet")).then_refused(
            NoInputLockError, "NO_INPUT_LOCK", contains="client `tablet` is not connected to session `ses_1`"
        )

    def test_who_asked_and_left_gets_nothing(self) -> None:
        scenario = two_clients().given(takes_lock("desk"), disconnects("desk"))
        assert scenario.state.lock_request is None
        scenario.when(Settle(), now=T0 + ms("10s")).then_nothing_happens()

    def test_who_asked_and_lost_the_lease_gets_nothing(self) -> None:
        scenario = two_clients().given(takes_lock("desk"), LosesLease("desk"))
        scenario.when(Settle(), now=T0 + ms("10s")).then(ClientDisconnected(client_id="desk", cause="lease"))
        assert (scenario.state.lock, scenario.state.lock_request) == ("phone", None)

    def test_a_holder_whose_lease_ran_out_has_lost_it_to_who_asked(self) -> None:
        scenario = three_clients().given(takes_lock("tablet"), LosesLease("phone"))
        scenario.when(Settle(), now=T0 + ms("10s")).then(
            ClientDisconnected(client_id="phone", cause="lease"),
            LockPassed(holder="phone", to="tablet", cause="disconnect"),
        )
        scenario.when(Settle()).then_nothing_happens()

    def test_a_request_that_is_due_with_the_lock_is_settled_in_the_same_append(self) -> None:
        settings = Settings(attended_ms=ms("10s"), answering="lock-holder")
        scenario = given(opens(settings=settings), connects("phone"), connects("desk"))
        scenario.given(takes_lock("desk"), asks("per_1", "ls"))
        scenario.when(Settle(), now=T0 + ms("10s")).then(
            LockPassed(holder="phone", to="desk", cause="request"),
            Expired(request_id="per_1", tier="attended", duration_ms=ms("10s"), present=(DESK, PHONE)),
        )


class TestPassing:
    def test_a_holder_that_leaves_passes_it_to_the_longest_connected(self) -> None:
        scenario = (
            three_clients()
            .when(disconnects("phone"))
            .then(
                ClientDisconnected(client_id="phone", cause="left"),
                LockPassed(holder="phone", to="desk", cause="disconnect"),
            )
        )
        assert scenario.state.lock == "desk"

    def test_who_came_back_is_not_the_longest_connected(self) -> None:
        scenario = three_clients().given(disconnects("desk"), connects("desk"))
        scenario.given(disconnects("phone"))
        assert scenario.state.lock == "tablet"

    def test_who_asked_for_it_comes_before_the_longest_connected(self) -> None:
        scenario = (
            three_clients()
            .given(takes_lock("tablet"))
            .when(disconnects("phone"))
            .then(
                ClientDisconnected(client_id="phone", cause="left"),
                LockPassed(holder="phone", to="tablet", cause="disconnect"),
            )
        )
        assert scenario.state.lock_request is None

    def test_the_last_one_to_leave_leaves_it_free(self) -> None:
        scenario = (
            given(opens(settings=LOCKED), connects("phone"))
            .when(disconnects("phone"))
            .then(
                ClientDisconnected(client_id="phone", cause="left"),
                LockPassed(holder="phone", to=None, cause="disconnect"),
            )
        )
        assert scenario.state.lock is None

    def test_a_holder_may_give_it(self) -> None:
        scenario = (
            three_clients()
            .when(passes_lock("phone", "tablet"))
            .then(LockPassed(holder="phone", to="tablet", cause="given"))
        )
        assert scenario.state.lock == "tablet"
        scenario.when(passes_lock("phone", "tablet")).then_nothing_happens()

    def test_given_to_who_asked_the_asking_is_over(self) -> None:
        scenario = two_clients().given(takes_lock("desk"), passes_lock("phone", "desk"))
        assert (scenario.state.lock, scenario.state.lock_request) == ("desk", None)

    def test_given_to_another_it_still_passes_to_who_asked(self) -> None:
        scenario = three_clients().given(takes_lock("desk"), passes_lock("phone", "tablet"))
        scenario.when(Settle(), now=T0 + ms("10s")).then(LockPassed(holder="tablet", to="desk", cause="request"))

    def test_who_does_not_hold_it_cannot_give_it(self) -> None:
        three_clients().when(passes_lock("desk", "tablet")).then_refused(
            NoInputLockError, "NO_INPUT_LOCK", contains="client `desk` does not hold the input lock", holder="phone"
        )

    def test_it_cannot_be_given_to_who_is_not_connected(self) -> None:
        two_clients().when(passes_lock("phone", "tablet")).then_refused(
            NoInputLockError, "NO_INPUT_LOCK", contains="client `tablet` is not connected"
        )


class TestAnsweringByItsHolder:
    @pytest.fixture
    def scenario(self) -> Scenario:
        return given(opens(settings=LOCKED), connects("phone"), connects("desk"), asks("per_1", "ls"))

    def test_the_holder_may_answer(self, scenario: Scenario) -> None:
        scenario.when(replies("per_1", "once", client="phone")).then(
            Replied(request_id="per_1", reply="once", outcome="allowed", client_id="phone")
        )

    @pytest.mark.parametrize("client", ["desk", None])
    def test_others_may_not_and_the_request_waits_on(self, scenario: Scenario, client: str | None) -> None:
        scenario.when(replies("per_1", "once", client=client)).then_refused(
            NoInputLockError,
            "NO_INPUT_LOCK",
            contains="only the client that holds the input lock may answer in session `ses_1`: `phone` holds it",
            request_id="per_1",
            session="ses_1",
            holder="phone",
        )
        assert scenario.waiting() == ["per_1"]

    def test_the_lock_decides_at_the_moment_of_the_answer(self, scenario: Scenario) -> None:
        scenario.given(passes_lock("phone", "desk")).when(replies("per_1", "once", client="desk")).then(
            Replied(request_id="per_1", reply="once", outcome="allowed", client_id="desk")
        )

    def test_when_nobody_holds_it_an_answer_is_told_to_connect(self, scenario: Scenario) -> None:
        scenario.given(disconnects("phone"), disconnects("desk"))
        scenario.when(replies("per_1", "once", client="phone")).then_refused(
            NoInputLockError, "NO_INPUT_LOCK", contains="nobody holds it; connect and take it", holder=None
        )

    def test_an_answer_without_a_client_never_counts_as_the_holders(self, scenario: Scenario) -> None:
        scenario.given(disconnects("phone"), disconnects("desk"))
        scenario.when(replies("per_1", "once")).then_refused(NoInputLockError, "NO_INPUT_LOCK")

    def test_an_administrators_local_answer_counts_and_is_marked(self, scenario: Scenario) -> None:
        scenario.when(replies("per_1", "reject", by=ROOT, administrator=True)).then(
            Replied(request_id="per_1", reply="reject", outcome="rejected", override=True)
        )

    def test_an_administrator_who_holds_the_lock_overrides_nothing(self, scenario: Scenario) -> None:
        scenario.when(replies("per_1", "once", client="phone", administrator=True)).then(
            Replied(request_id="per_1", reply="once", outcome="allowed", client_id="phone")
        )

    def test_where_anyone_may_answer_an_administrator_overrides_nothing(self) -> None:
        given(opens(), asks("per_1", "ls")).when(replies("per_1", "once", administrator=True)).then(
            Replied(request_id="per_1", reply="once", outcome="allowed")
        )

    def test_who_repeats_the_winning_answer_needs_no_lock(self, scenario: Scenario) -> None:
        scenario.given(replies("per_1", "once", client="phone"))
        scenario.when(replies("per_1", "once", client="desk")).then_nothing_happens()


def test_a_closed_session_has_no_lock_to_take_or_give_and_nothing_passes_any_more() -> None:
    scenario = two_clients().given(takes_lock("desk"), closes())
    assert next_due_ms(scenario.state) is None
    scenario.when(Settle(), now=T0 + ms("10s")).then_nothing_happens()
    scenario.when(takes_lock("desk")).then_refused(SessionClosedError, "SESSION_CLOSED")
    scenario.when(passes_lock("phone", "desk")).then_refused(SessionClosedError, "SESSION_CLOSED")


class TestAnyoneMayAnswer:
    def test_there_is_no_lock_to_take_or_to_give(self) -> None:
        scenario = given(opens(), connects("phone"), connects("desk"))
        for command in (takes_lock("phone"), passes_lock("phone", "desk")):
            scenario.when(command).then_refused(
                NoInputLockError, "NO_INPUT_LOCK", contains="session `ses_1` has no input lock: anyone may answer"
            )

    def test_a_lock_request_of_who_has_gone_still_ends(self) -> None:
        joined = [ClientConnected(client_id=one, name="ann") for one in ("phone", "desk")]
        scenario = given(opens(), *joined, LockTaken(client_id="phone"), WANTED, later("10s"))
        scenario.when(Settle()).then(
            ClientDisconnected(client_id="phone", cause="lease"),
            ClientDisconnected(client_id="desk", cause="lease"),
            LockPassed(holder="phone", to=None, cause="disconnect"),
        )
        assert next_due_ms(scenario.given(later("1h"), Settle()).state) is None


def test_who_is_present_is_unknown_and_a_lock_that_was_asked_for_passes_all_the_same() -> None:
    scenario = two_clients().given(takes_lock("desk"), LosesPresence())
    scenario.when(Settle(), now=T0 + ms("10s")).then(LockPassed(holder="phone", to="desk", cause="request"))
    assert sorted(scenario.state.clients) == ["desk", "phone"]
