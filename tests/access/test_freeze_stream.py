"""The stream of freezes: two reaches, each frozen once, and the freezes that the server lost."""

from __future__ import annotations

from typing import Final

import pytest

from ledger.access.freeze import EndFreeze, FreezeCommand, FreezeState, StartFreeze, decide_freeze, evolve_freeze
from ledger.core.codec import NewerEvent
from ledger.core.errors import InputError, NewerSchemaError
from ledger.core.events import Actor, Event, Frozen, ReasonDetail, Unfrozen
from ledger.core.freezes import Freeze, decode_freeze
from ledger.core.grants import Recorded
from ledger.core.limits import FREEZES_COUNT

ANN: Final = Actor("person", "ann")
BOB: Final = Actor("person", "bob")
T0: Final = 1_800_000_000_000


def after(*commands: FreezeCommand, state: FreezeState | None = None) -> FreezeState:
    state = FreezeState() if state is None else state
    for command in commands:
        for event in decide_freeze(state, command):
            state = fold(state, event, command.actor)
    return state


def fold(state: FreezeState, event: Event | NewerEvent, actor: Actor = ANN) -> FreezeState:
    version = state.version + 1
    return evolve_freeze(state, Recorded(event, actor, T0 + version, version, f"evt_{version}"))


def freeze(project: str | None = None, reason: str | None = None, by: Actor = ANN) -> StartFreeze:
    return StartFreeze(actor=by, project=project, reason=reason)


def test_a_freeze_says_who_when_and_why() -> None:
    assert after(freeze(reason="a leak")).in_force() == (Freeze(by="ann", at_ms=T0 + 1, reason="a leak"),)


def test_a_freeze_of_everything_is_over_every_session() -> None:
    state = after(freeze())
    assert state.over("shop") is not None
    assert state.over(None) is not None


def test_a_freeze_of_a_project_is_over_its_sessions_alone() -> None:
    state = after(freeze("shop"))
    assert state.over("shop") is not None
    assert state.over("bank") is None
    assert state.over(None) is None


def test_freezing_again_writes_nothing_and_keeps_the_first_reason() -> None:
    state = after(freeze("shop", "a leak"))
    assert decide_freeze(state, freeze("shop", "another", BOB)) == ()


def test_the_whole_ledger_and_a_project_are_frozen_and_unfrozen_apart() -> None:
    both = after(freeze(), freeze("shop"))
    assert after(EndFreeze(actor=BOB), state=both).over("shop") is not None
    assert after(EndFreeze(actor=BOB, project="shop"), state=both).over("shop") is not None
    assert after(EndFreeze(actor=BOB), EndFreeze(actor=BOB, project="shop"), state=both).in_force() == ()


def test_ending_what_is_not_frozen_writes_nothing() -> None:
    assert decide_freeze(after(freeze("shop")), EndFreeze(actor=ANN)) == ()


def test_a_reason_is_the_detail_of_both_events() -> None:
    started = decide_freeze(FreezeState(), freeze("shop", "a leak"))
    assert started == (Frozen(project="shop", detail=ReasonDetail(reason="a leak")),)
    ended = decide_freeze(after(freeze("shop")), EndFreeze(actor=ANN, project="shop", reason="found"))
    assert ended == (Unfrozen(project="shop", detail=ReasonDetail(reason="found")),)


def test_a_lost_freeze_is_recorded_again_unless_the_stream_has_gone_on_since() -> None:
    state = after(freeze("bank"))
    again = StartFreeze(actor=ANN, project="shop", lost_ms=state.last_ms)
    assert decide_freeze(state, again) != ()
    assert decide_freeze(after(freeze("mill"), state=state), again) == ()


def test_too_many_frozen_projects_are_refused_with_what_to_do() -> None:
    state = after(*(freeze(f"p{number}") for number in range(FREEZES_COUNT)))
    with pytest.raises(InputError, match="freeze everything instead"):
        decide_freeze(state, freeze("one more"))
    assert decide_freeze(state, freeze()) != ()


def test_events_of_a_newer_version_stop_every_decision() -> None:
    state = fold(FreezeState(), NewerEvent(schema=9, event_type="thawed"))
    with pytest.raises(NewerSchemaError):
        decide_freeze(state, freeze())


def test_a_flag_that_cannot_be_read_freezes_everything() -> None:
    assert decode_freeze(b"{").project is None
    whole = Freeze(by="ann", at_ms=T0, project="shop", reason="ü")
    assert decode_freeze(whole.encoded()) == whole
