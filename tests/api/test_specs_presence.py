"""Presence, and its cost in log entries."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ledger import InputError, Ledger, Timeouts
from ledger.client.connection import RENEW_SECONDS
from ledger.core.errors import StoreError
from ledger.core.events import DeadlineMoved, Expired, Presence
from ledger.core.limits import LEASE_MS
from ledger.core.questions import Question
from ledger.testing import TestClock
from tests.api.actors import ANN, OpenLedger, ask_and_wait, events_of, pend, pending_ids, raised


async def test_who_only_follows_the_log_is_no_client(ledger: Ledger) -> None:
    session = await ledger.session("ses_1")
    events = session.events()
    assert (await anext(events)).type == "session_opened"
    following = asyncio.ensure_future(anext(events))
    asked = await pend(session, "call_1")
    assert (asked.request.tier, asked.request.present) == ("unattended", ())
    assert (await following).type == "asked"


def test_a_lease_lasts_thirty_seconds_and_is_renewed_every_ten() -> None:
    assert (LEASE_MS, RENEW_SECONDS) == (30_000, 10)


async def test_renewing_a_lease_keeps_a_client_there_and_writes_nothing(ledger: Ledger, clock: TestClock) -> None:
    session = await ledger.session("ses_1")
    connection = await session.connect("phone", actor=ANN)
    before = (await session.state()).version
    for _ in range(5):
        clock.advance("29s")
        await connection.renew()
    assert (await session.state()).version == before
    assert (await pend(session, "call_1")).request.tier == "attended"


async def test_a_client_that_is_there_stays_there_however_far_a_test_moves_the_clock(
    ledger: Ledger, clock: TestClock
) -> None:
    session = await ledger.session("ses_1")
    async with await session.connect("phone", actor=ANN):
        asking = await ask_and_wait(session, "call_1")
        clock.advance("60s")
        error = await raised(asking)
        assert (error.code, error.text) == ("EXPIRED", "Permission request timed out after 60 seconds.")
    assert (await pend(session, "call_2")).request.tier == "unattended"


async def test_opening_the_inbox_is_written_only_to_sessions_where_something_gains_time(
    ledger: Ledger, clock: TestClock
) -> None:
    waiting, quiet = await ledger.session("ses_1"), await ledger.session("ses_2")
    await pend(waiting, "call_1")
    clock.advance("60s")
    await ledger.connect_inbox("laptop", actor=ANN)
    assert await events_of(waiting) == ["session_opened", "asked", "client_connected"]
    assert await events_of(quiet) == ["session_opened"]


async def test_opening_the_inbox_gives_what_waits_unattended_its_time_again(ledger: Ledger, clock: TestClock) -> None:
    session = await ledger.session("ses_1")
    await pend(session, "call_1")
    clock.advance("6d")
    await ledger.connect_inbox("laptop", actor=ANN)
    [pending] = await session.pending()
    assert pending.request.deadline_ms == clock.now_ms() + 7 * 86_400_000


async def test_the_inbox_is_shown_what_waits_in_order_of_asking_whichever_the_session(
    ledger: Ledger, clock: TestClock
) -> None:
    order = ["ses_2", "ses_3", "ses_1", "ses_2"]
    for number, session_id in enumerate(order):
        await pend(await ledger.session(session_id), f"call_{number}", f"ls {number}")
        clock.advance("1s")
    replayed = await ledger.connect_inbox("laptop", actor=ANN)
    assert [(one.session, one.request.request_id, one.is_replay) for one in replayed] == [
        (session_id, f"call_{number}", True) for number, session_id in enumerate(order)
    ]


@pytest.mark.parametrize(
    ("dialect", "left"), [("opencode", []), ("brutus", []), ("betcode", ["call_2"]), ("codelia", ["call_2"])]
)
async def test_a_reject_takes_along_what_its_dialects_source_takes_along(
    open_ledger: OpenLedger, dialect: str, left: list[str]
) -> None:
    session = await (await open_ledger()).session("ses_1", dialect=dialect)
    for request_id in ("call_1", "call_2"):
        await pend(session, request_id, f"ls {request_id}")
    await session.reply("call_1", "reject")
    assert await pending_ids(session) == left


async def test_who_attaches_in_another_dialect_changes_no_cascade_of_the_session(open_ledger: OpenLedger) -> None:
    ledger = await open_ledger()
    await ledger.session("ses_1", rules=[])
    session = await ledger.session("ses_1", dialect="betcode")
    assert (await session.state()).settings.cascade_reject == "session"


async def test_a_session_with_an_open_inbox_and_clients_that_come_and_go_has_no_new_event(
    ledger: Ledger, open_ledger: OpenLedger, clock: TestClock
) -> None:
    session = await ledger.session("ses_1")
    people = await open_ledger()
    elsewhere = await people.attach("ses_1")
    before = (await session.state()).version
    for _ in range(100):
        await people.connect_inbox("laptop", actor=ANN)
        connection = await elsewhere.connect("phone", actor=ANN)
        clock.advance("10s")
        await connection.renew()
        await people.renew_inbox("laptop", actor="ann")
        await connection.disconnect()
        await people.disconnect_inbox("laptop", actor=ANN)
    assert (await session.state()).version == before
    assert await session.present() == ()


async def test_an_expired_request_says_who_was_there_and_a_moved_one_that_nobody_was(
    ledger: Ledger, clock: TestClock
) -> None:
    session = await ledger.session("ses_1")
    connection = await session.connect("phone", actor=ANN)
    await pend(session, "call_1")
    clock.advance("20s")
    await pend(session, "call_2", "ls")
    clock.advance("40s")
    await connection.renew()
    await session.submit("bash", ["pwd"], request_id="call_3")
    await connection.disconnect()
    clock.advance("20s")
    await session.submit("bash", ["cd"], request_id="call_4")
    ended = {
        one.event.request_id: one.event.present
        async for one in session.events(follow_on=False)
        if isinstance(one.event, Expired | DeadlineMoved)
    }
    assert ended == {"call_1": (Presence("phone", "ann"),), "call_2": ()}


async def test_a_client_is_online_as_long_as_its_lease(ledger: Ledger, clock: TestClock) -> None:
    session = await ledger.session("ses_1", project="shop")
    await session.connect("phone", actor=ANN)
    await ledger.connect_inbox("laptop", actor="bob")
    assert await session.present() == (Presence("laptop", "bob"), Presence("phone", "ann"))
    clock.advance("31s")
    assert await session.present() == ()


class Counting:
    name = "counting"

    def __init__(self) -> None:
        self.asked: list[tuple[str, ...]] = []

    async def decide(self, session: str, question: Question, evaluation: object) -> None:
        self.asked.append(question.call.patterns)


async def test_deciders_are_asked_once_for_a_request_that_waits(open_ledger: OpenLedger) -> None:
    counting = Counting()
    session = await (await open_ledger(plugins=[counting])).session("ses_1")
    await pend(session, "call_1", "ls")
    assert counting.asked == [("ls",)]


async def test_a_client_that_fails_before_its_lease_is_written_connects_again_as_if_for_the_first_time(
    ledger: Ledger, clock: TestClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await ledger.session("ses_1")
    await pend(session, "call_1")
    clock.advance("1h")

    async def lost(*_: object) -> None:
        raise StoreError("the connection was lost")

    with monkeypatch.context() as broken:
        broken.setattr(ledger.store, "lease", lost)
        with pytest.raises(StoreError):
            await session.connect("phone", actor=ANN)
    assert await session.present() == ()
    connection = await session.connect("phone", actor=ANN)
    assert [one.request.request_id for one in connection.replayed] == ["call_1"]
    assert await session.present() == (Presence("phone", "ann"),)
    assert await events_of(session) == ["session_opened", "asked", "client_connected"]


async def test_each_connection_counts_in_a_session_without_a_least_gain(ledger: Ledger, clock: TestClock) -> None:
    session = await ledger.session("ses_1", timeouts=Timeouts(least_gain=0))
    await pend(session, "call_1")
    clock.advance(1)
    await session.connect("phone", actor=ANN)
    [pending] = await session.pending()
    assert pending.request.deadline_ms == clock.now_ms() + 7 * 86_400_000


@pytest.mark.parametrize("wrong", [None, "1s", -1, False, float("nan")])
async def test_a_least_gain_is_a_number_of_seconds(ledger: Ledger, wrong: Any) -> None:
    with pytest.raises(InputError, match="least gain"):
        await ledger.session("ses_1", timeouts=Timeouts(least_gain=wrong))
