from __future__ import annotations

from ledger.core.errors import AlreadyAnsweredError, SessionClosedError, UnknownRequestError, UnknownSessionError
from ledger.core.events import Cancelled, ReasonDetail, SessionClosed, Settings
from ledger.session.state import next_due_ms
from tests.support.commands import asks, cancels, closes, connects, grants, opens, replies, takes_lock
from tests.support.scenario import T0, Scenario, given, later, ms


def test_an_asker_that_gave_up_cancels_its_request() -> None:
    scenario = (
        given(opens(), asks("per_1", "ls"))
        .when(cancels("per_1"))
        .then(Cancelled(request_id="per_1", cause="asker_gave_up"))
    )
    result = scenario.result("per_1")
    assert (result.outcome, result.code, result.agent, result.reply) == ("cancelled", "CANCELLED", "continue", None)
    assert result.message == "Permission request cancelled: the agent gave up waiting"


def test_a_cancellation_may_say_why() -> None:
    scenario = (
        given(opens(), asks("per_1", "ls"))
        .when(cancels("per_1", "asker_died", "exit code 137"))
        .then(Cancelled(request_id="per_1", cause="asker_died", detail=ReasonDetail("exit code 137")))
    )
    assert scenario.result("per_1").message == (
        "Permission request cancelled: the agent that asked is gone (exit code 137)"
    )


def test_cancelling_again_changes_nothing() -> None:
    given(opens(), asks("per_1", "ls"), cancels("per_1")).when(cancels("per_1", "withdrawn")).then_nothing_happens()


def test_a_cancellation_touches_no_other_request() -> None:
    assert given(opens(), asks("per_1", "ls"), asks("per_2", "ls"), cancels("per_1")).waiting() == ["per_2"]


def test_what_was_answered_cannot_be_cancelled() -> None:
    given(opens(), asks("per_1", "ls"), replies("per_1", "once")).when(cancels("per_1")).then_refused(
        AlreadyAnsweredError,
        "ALREADY_ANSWERED",
        contains="already allowed by ann (once)",
        request_id="per_1",
        outcome="allowed",
        by="ann",
        at_ms=T0,
    )


def test_what_expired_cannot_be_cancelled_although_nobody_wrote_the_expiry() -> None:
    given(opens(), asks("per_1", "ls")).when(cancels("per_1"), now=T0 + ms("7d")).then_refused(
        AlreadyAnsweredError, "ALREADY_ANSWERED", outcome="expired"
    )


def test_an_unknown_request_cannot_be_cancelled() -> None:
    given(opens()).when(cancels("per_9")).then_refused(
        UnknownRequestError, "UNKNOWN_REQUEST", contains="session `ses_1` has no request `per_9`", request_id="per_9"
    )


def test_closing_cancels_what_is_pending_in_order_of_asking() -> None:
    scenario = given(opens(), asks("per_b", "ls"), asks("per_a", "ls"), later("5s"))
    scenario.when(closes("done")).then(
        Cancelled(request_id="per_b", cause="session_closed"),
        Cancelled(request_id="per_a", cause="session_closed"),
        SessionClosed(detail=ReasonDetail("done")),
    )
    assert (scenario.state.closed_ms, scenario.waiting()) == (T0 + ms("5s"), [])
    assert scenario.result("per_a").message == "Permission request cancelled: the session was closed"


def test_closing_leaves_what_was_settled_as_it_is() -> None:
    scenario = given(opens(), asks("per_1", "ls"), replies("per_1", "once")).when(closes()).then(SessionClosed())
    assert scenario.result("per_1").outcome == "allowed"


def test_what_was_due_expires_before_the_session_closes() -> None:
    scenario = given(opens(), asks("per_1", "ls"), later("7d"), closes())
    assert scenario.result("per_1").outcome == "expired"


def test_closing_again_changes_nothing() -> None:
    given(opens(), closes(), later("1d")).when(closes("again")).then_nothing_happens()


def test_nothing_is_due_in_a_closed_session() -> None:
    locked = opens(settings=Settings(answering="lock-holder"))
    scenario = given(locked, connects("phone"), connects("desk"), takes_lock("desk"), asks("per_1", "ls"), closes())
    assert next_due_ms(scenario.state) is None


def test_a_closed_session_takes_no_new_request_and_no_grant() -> None:
    scenario = given(opens(), closes())
    for command in (asks("per_1", "ls"), grants("grn_1", "bash", "*"), connects("phone")):
        scenario.when(command).then_refused(SessionClosedError, "SESSION_CLOSED", session="ses_1")


def test_a_session_that_was_never_opened_cannot_be_closed() -> None:
    Scenario().when(closes()).then_refused(UnknownSessionError, "UNKNOWN_SESSION", session="ses_1")
