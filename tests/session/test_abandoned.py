"""An attended request at its deadline when nobody is connected any more."""

from __future__ import annotations

import pytest

from ledger.core.events import (
    Actor,
    Asked,
    ClientConnected,
    DeadlineMoved,
    Event,
    Expired,
    SessionOpened,
    Settings,
    WhenAbandoned,
)
from ledger.core.grants import Recorded
from ledger.core.policy import Verdict
from ledger.session.commands import Live
from ledger.session.deadlines import settle
from ledger.session.evolve import evolve
from ledger.session.state import SessionState

AGENT = Actor("agent", "worker")


def asked_with_somebody_who_left(when_abandoned: WhenAbandoned) -> SessionState:
    state = SessionState(session_id="ses_1")
    history: tuple[Event, ...] = (
        SessionOpened(policy_digest="", settings=Settings(when_abandoned=when_abandoned)),
        ClientConnected(client_id="phone", name="ann"),
        Asked(
            request_id="r1",
            permission="bash",
            verdict=Verdict.ASK,
            digest="d",
            policy_digest="",
            tier="attended",
            duration_ms=60_000,
            unattended_ms=600_000,
        ),
    )
    for version, event in enumerate(history, 1):
        state = evolve(state, Recorded(event, AGENT, 1_000, version, f"evt_{version}"))
    return state


@pytest.mark.parametrize(
    ("when_abandoned", "ends"),
    [
        ("move", DeadlineMoved(request_id="r1", tier="unattended", duration_ms=600_000, present=())),
        ("expire", Expired(request_id="r1", tier="attended", duration_ms=60_000, present=())),
    ],
)
def test_an_abandoned_request_moves_or_expires_as_the_session_says(
    when_abandoned: WhenAbandoned, ends: DeadlineMoved | Expired
) -> None:
    state = asked_with_somebody_who_left(when_abandoned)

    assert settle(state, 61_000, Live()).events[-1] == ends
