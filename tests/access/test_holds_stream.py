"""The stream of legal holds: one hold a reach, and the hold that forbids a redaction."""

from __future__ import annotations

from typing import Final

import pytest

from ledger.access.freeze import (
    HoldCommand,
    HoldReach,
    HoldState,
    LegalHold,
    LiftHold,
    PlaceHold,
    decide_holds,
    evolve_holds,
    hold_over,
    require_no_hold,
)
from ledger.core.codec import NewerEvent
from ledger.core.errors import InputError, NewerSchemaError, OnHoldError
from ledger.core.events import Actor, Event, HoldLifted, HoldPlaced, ReasonDetail
from ledger.core.grants import Recorded
from ledger.core.limits import HOLDS_COUNT

ANN: Final = Actor("person", "ann")
BOB: Final = Actor("person", "bob")
SHOP: Final = HoldReach(project="shop")
SES_1: Final = HoldReach(session="ses_1")
T0: Final = 1_800_000_000_000


def after(*commands: HoldCommand, state: HoldState | None = None) -> HoldState:
    state = HoldState() if state is None else state
    for command in commands:
        for event in decide_holds(state, command):
            state = fold(state, event, command.actor)
    return state


def fold(state: HoldState, event: Event | NewerEvent, actor: Actor = ANN) -> HoldState:
    version = state.version + 1
    return evolve_holds(state, Recorded(event, actor, T0 + version, version, f"evt_{version}"))


def place(reach: HoldReach = SHOP, reason: str = "case 7", by: Actor = ANN) -> PlaceHold:
    return PlaceHold(actor=by, reach=reach, reason=reason)


def test_a_hold_says_who_when_and_why() -> None:
    assert after(place()).in_force() == (LegalHold(reach=SHOP, by="ann", at_ms=T0 + 1, reason="case 7"),)


def test_a_hold_of_a_project_covers_its_own_stream_and_each_of_its_sessions() -> None:
    state = after(place())
    assert hold_over(state, project="shop") is not None
    assert hold_over(state, session="ses_1", project="shop") is not None
    assert hold_over(state, session="ses_1", project="bank") is None
    assert hold_over(state, session="shop") is None


def test_a_hold_of_a_session_covers_that_session_alone() -> None:
    state = after(place(SES_1))
    assert hold_over(state, session="ses_1", project="shop") is not None
    assert hold_over(state, session="ses_2", project="shop") is None
    assert hold_over(state, project="ses_1") is None


def test_a_hold_forbids_a_redaction_and_says_who_when_and_why() -> None:
    state = after(place())
    with pytest.raises(
        OnHoldError, match=r"project `shop` is under a legal hold, placed by ann at .*: case 7"
    ) as refused:
        require_no_hold(state, session="ses_1", project="shop")
    error = refused.value
    assert (error.code, error.session, error.data["by"], error.data["at_ms"]) == ("ON_HOLD", "ses_1", "ann", T0 + 1)
    require_no_hold(state, session="ses_1", project="bank")


def test_placing_again_writes_nothing_and_keeps_the_first() -> None:
    state = after(place())
    assert decide_holds(state, place(reason="case 8", by=BOB)) == ()


def test_a_project_and_its_session_are_held_and_lifted_apart() -> None:
    both = after(place(), place(SES_1))
    assert [one.reach for one in both.in_force()] == [SHOP, SES_1]
    left = after(LiftHold(actor=BOB, reach=SHOP), state=both)
    assert hold_over(left, session="ses_1", project="shop") is not None
    assert hold_over(left, session="ses_2", project="shop") is None
    assert after(LiftHold(actor=BOB, reach=SES_1), state=left).in_force() == ()


def test_lifting_what_is_not_held_writes_nothing() -> None:
    assert decide_holds(after(place()), LiftHold(actor=ANN, reach=SES_1)) == ()


def test_a_reason_is_the_detail_of_both_events_and_may_be_missing() -> None:
    assert decide_holds(HoldState(), place()) == (HoldPlaced(project="shop", detail=ReasonDetail(reason="case 7")),)
    lift = LiftHold(actor=ANN, reach=SES_1, reason="closed")
    lifted = decide_holds(after(place(SES_1)), lift)
    assert lifted == (HoldLifted(session="ses_1", detail=ReasonDetail(reason="closed")),)
    (without,) = fold(HoldState(), HoldPlaced(project="shop")).in_force()
    assert (without.reason, without.sentence.endswith("Z")) == (None, True)


def test_too_many_holds_are_refused_with_what_to_do() -> None:
    state = after(*(place(HoldReach(session=f"s{number}")) for number in range(HOLDS_COUNT)))
    with pytest.raises(InputError, match="hold a whole project instead"):
        decide_holds(state, place())
    assert decide_holds(state, LiftHold(actor=ANN, reach=HoldReach(session="s1"))) != ()


def test_events_of_a_newer_version_stop_every_decision_and_every_redaction() -> None:
    state = fold(HoldState(), NewerEvent(schema=9, event_type="hold_moved"))
    with pytest.raises(NewerSchemaError):
        decide_holds(state, place())
    with pytest.raises(NewerSchemaError):
        require_no_hold(state, session="ses_1")
