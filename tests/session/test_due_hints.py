"""The due hint of an append: what it leaves in the index is what the session's state has due."""

from __future__ import annotations

from typing import Any, Final

from hypothesis import given
from hypothesis import strategies as st
from rpds import HashTrieMap

from ledger.core.events import Actor, Asked, Cancelled, Event, Expired, Replied, Settings, Tier
from ledger.core.grants import Recorded
from ledger.core.policy import Verdict
from ledger.log.folds import SessionFold
from ledger.session.evolve import evolve
from ledger.session.state import LockRequest, PendingRequests, Request, SessionState, next_due_ms
from ledger.stores.memory import MemoryServer, MemoryStore
from ledger.stores.port import NOTHING_DUE, Due

NOW_MS: Final = 100
AGENT: Final = Actor("agent", "builder")
FOLD: Final = SessionFold(MemoryStore(MemoryServer()))

times = st.none() | st.integers(1, 6)


@st.composite
def sessions(draw: st.DrawFn) -> SessionState:
    """A session with pending requests, and perhaps an open claim and a request for its input lock."""
    pending = [
        Request(
            request_id=f"per_{number}",
            version=number,
            asked_ms=0,
            asker=AGENT,
            permission="bash",
            digest="",
            tier="unattended",
            deadline_ms=None if lasts is None else NOW_MS + lasts,
        )
        for number, lasts in enumerate(draw(st.lists(times, max_size=3)))
    ]
    lock_ms, claims = draw(times), draw(st.integers(0, 1))
    return SessionState(
        session_id="ses_1",
        version=9,
        settings=Settings(claim_timeout_ms=4),
        pending=PendingRequests.of(pending),
        open_claims=HashTrieMap({1: "old"} if claims else {}),
        claims_count=claims,
        first_claim_ms=NOW_MS,
        lock_request=None if lock_ms is None else LockRequest("phone", NOW_MS + lock_ms),
    )


@st.composite
def events(draw: st.DrawFn) -> list[Event]:
    """The events of one append: asks, and ends of requests that are pending."""
    made: list[Any] = []
    for number in range(draw(st.integers(1, 3))):
        kind = draw(st.sampled_from(["ask", "allow", "reply", "expire", "cancel"]))
        tier: Tier = draw(st.sampled_from(["attended", "unattended"]))
        if kind in ("ask", "allow"):
            made.append(
                Asked(
                    request_id=f"new_{number}",
                    permission="bash",
                    verdict=Verdict.ASK if kind == "ask" else Verdict.ALLOW,
                    digest="",
                    policy_digest="",
                    tier=tier if kind == "ask" else None,
                    duration_ms=draw(times) if kind == "ask" else None,
                    cap_ms=draw(times) if kind == "ask" else None,
                )
            )
        elif kind == "reply":
            made.append(Replied(request_id=f"per_{number}", reply="once", outcome="allowed"))
        elif kind == "expire":
            made.append(Expired(request_id=f"per_{number}", tier=tier, duration_ms=5))
        else:
            made.append(Cancelled(request_id=f"per_{number}", cause="withdrawn"))
    return made


def indexed(state: SessionState) -> Due | None:
    """Return what the index should have of a session: None is no entry."""
    due_ms = next_due_ms(state)
    return Due(due_ms) if due_ms is not None or state.pending else None


@given(sessions(), events())
def test_the_hint_leaves_in_the_index_what_is_due_after_the_append(before: SessionState, made: list[Event]) -> None:
    pending = set(before.pending)
    made = [one for one in made if type(one) is Asked or getattr(one, "request_id", "") in pending]
    after = before
    for version, event in enumerate(made, before.version + 1):
        after = evolve(after, Recorded(event, AGENT, NOW_MS, version, f"evt_{version}"))
    hint = FOLD.due_hint(before, next_due_ms(before), made, lambda: after, NOW_MS)
    if hint is None:
        found = indexed(before)
    elif isinstance(hint, str):
        assert hint == NOTHING_DUE
        found = None
    else:
        found = Due(hint.ms + NOW_MS) if hint.relative and hint.ms is not None else Due(hint.ms)
    assert found == indexed(after)
