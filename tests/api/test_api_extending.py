"""More time for an attended request: over processes that race, up to the deadline, and by the dialect's default."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ledger import InputError, Ledger, NotExtendableError, StaleReplyError, SyncLedger
from ledger.core.events import DeadlineMoved
from ledger.core.times import format_time
from ledger.testing import TestClock
from tests.api.actors import ANN, BOB, OpenLedger, ask_and_wait, pend, raised


async def extensions(ledger: Ledger) -> list[tuple[str, str | None]]:
    """Return who extended requests of `ses_1`, and by which act."""
    session = await ledger.attach("ses_1")
    found = [one async for one in session.events(follow_on=False) if isinstance(one.event, DeadlineMoved)]
    return [(one.actor.name, getattr(one.event, "reason", None)) for one in found]


async def attended(ledger: Ledger, **more: Any) -> str:
    """Ask with a phone connected; return the deadline as it is shown."""
    session = await ledger.session("ses_1")
    await session.connect("phone", actor=ANN)
    asked = await pend(session, "call_1", **more)
    assert asked.request.deadline_ms is not None
    return format_time(asked.request.deadline_ms)


async def test_of_two_people_in_two_processes_who_press_at_once_one_extends_it(open_ledger: OpenLedger) -> None:
    first, second = await open_ledger(), await open_ledger()
    seen = await attended(first)
    sessions = [await one.attach("ses_1") for one in (first, second)]
    results = await asyncio.gather(
        *(one.extend("call_1", seen=seen, actor=who) for one, who in zip(sessions, (ANN, BOB), strict=True))
    )
    assert len(await extensions(first)) == 1
    assert {one.request.duration_ms for one in results} == {360_000}


async def test_whoever_waits_is_not_expired_at_the_earlier_deadline(ledger: Ledger, clock: TestClock) -> None:
    session = await ledger.session("ses_1")
    await session.connect("phone", actor=ANN)
    asking = await ask_and_wait(session, "call_1")
    clock.advance("50s")
    await session.extend("call_1", "typing", actor=ANN)
    clock.advance("200s")
    await session.connect("phone", actor=ANN)
    await session.reply("call_1", "once", actor=ANN)
    assert (await asking).allowed
    assert await extensions(ledger) == [("ann", "typing")]


async def test_at_the_deadline_the_request_has_expired_and_nothing_revives_it(ledger: Ledger, clock: TestClock) -> None:
    seen = await attended(ledger)
    session = await ledger.attach("ses_1")
    await session.connect("phone", actor=ANN)
    clock.advance("20s")
    await session.renew_lease(session.stream.state.pending["call_1"].present[0])
    clock.advance("20s")
    await session.renew_lease(session.stream.state.pending["call_1"].present[0])
    clock.advance("20s")
    error = await raised(session.extend("call_1", seen=seen, actor=ANN))
    assert isinstance(error, StaleReplyError)
    assert await extensions(ledger) == []


async def test_every_reader_of_the_log_finds_the_same_deadline(open_ledger: OpenLedger) -> None:
    first, second = await open_ledger(), await open_ledger()
    await attended(first, waits=400)
    session = await first.attach("ses_1")
    await session.extend("call_1", "open_card", actor=ANN)
    await session.extend("call_1", actor=BOB)
    (here,), (there,) = [(await (await one.attach("ses_1")).state()).pending.values() for one in (first, second)]
    assert here.duration_ms == 400_000
    assert here == there


@pytest.mark.parametrize(
    ("dialect", "options", "extending"),
    [
        ("opencode", None, "automatic"),
        ("opencode", {"profile": "faithful"}, "automatic"),
        ("betcode", None, "automatic"),
        ("betcode", {"profile": "faithful"}, "never"),
    ],
)
async def test_a_new_session_extends_by_its_dialect_and_profile(
    ledger: Ledger, dialect: str, options: dict[str, Any] | None, extending: str
) -> None:
    session = await ledger.session("ses_1", dialect=dialect, options=options)
    assert (await session.state()).settings.extending == extending


async def test_a_session_may_choose_otherwise(ledger: Ledger) -> None:
    faithful = {"profile": "faithful"}
    session = await ledger.session("ses_1", dialect="betcode", options=faithful, extending="by-hand")
    assert (await session.state()).settings.extending == "by-hand"
    await ledger.session("ses_1", extending="never")
    await session.connect("phone", actor=ANN)
    await pend(session, "call_1", permission="Bash")
    assert isinstance(await raised(session.extend("call_1")), NotExtendableError)


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"reason": "because"}, "is none of `typing`, `open_card`, `by_hand`"),
        ({"seen": "soon"}, "`soon` is not a time"),
    ],
)
async def test_a_malformed_extension_is_refused(ledger: Ledger, more: dict[str, Any], says: str) -> None:
    await attended(ledger)
    with pytest.raises(InputError, match=says):
        await (await ledger.attach("ses_1")).extend("call_1", **more)


@pytest.mark.parametrize("waits", [0, -1, float("nan"), True, "60"])
async def test_a_wait_that_is_no_time_is_refused(ledger: Ledger, waits: Any) -> None:
    session = await ledger.session("ses_1")
    with pytest.raises(InputError, match="wait of the asker"):
        await session.submit("bash", ["ls"], waits=waits)


def test_the_blocking_interface_extends_too() -> None:
    with SyncLedger.connect("memory://", entry_points=False) as ledger:
        session = ledger.session("ses_1")
        session.submit("bash", ["ls"], request_id="call_1")
        with pytest.raises(NotExtendableError, match="it is unattended"):
            session.extend("call_1")
