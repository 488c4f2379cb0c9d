"""Presence that a process assumes and an append compares, by the server's own clock (DESIGN's table of tiers)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from ledger import Ledger, Session
from ledger.core.events import Presence
from ledger.log.inboxes import Inbox, renew_inbox
from ledger.stores.port import Place
from tests.api.actors import ANN, OpenLedger, events_of, pend
from tests.support.servers import RealServer

OpenSession = Callable[[], Awaitable[Session]]


@pytest.fixture
def open_session(open_ledger: OpenLedger) -> OpenSession:
    """Open the session in one more process, whose ledger may keep what it knows for a while."""

    async def opened() -> Session:
        return await (await open_ledger(clock=None)).session("ses_1")

    return opened


def reads_of_presence(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> list[object]:
    made: list[object] = []
    read = ledger.store.leases

    async def leases(places: Sequence[Place]) -> list[tuple[Presence, ...]]:
        made.extend(places)
        return await read(places)

    monkeypatch.setattr(ledger.store, "leases", leases)
    return made


async def test_who_knows_the_session_reads_no_leases_to_ask(
    open_ledger: OpenLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = await open_ledger(clock=None)
    session = await ledger.session("ses_1")
    await pend(session, "first")
    made = reads_of_presence(ledger, monkeypatch)
    assert [(await pend(session, f"call_{number}")).request.tier for number in range(3)] == ["unattended"] * 3
    assert made == []


async def test_a_client_that_another_process_connected_is_present_at_the_next_ask(open_session: OpenSession) -> None:
    agent, person = await open_session(), await open_session()
    assert (await pend(agent, "call_1")).request.tier == "unattended"
    connection = await person.connect("phone", actor=ANN)
    asked = await pend(agent, "call_2")
    assert (asked.request.tier, asked.request.present) == ("attended", (Presence("phone", ANN),))
    await connection.disconnect()
    asked = await pend(agent, "call_3")
    assert (asked.request.tier, asked.request.present) == ("unattended", ())


async def test_asks_at_once_that_all_assumed_wrongly_are_each_asked_once(open_session: OpenSession) -> None:
    agent, person = await open_session(), await open_session()
    await pend(agent, "call_1")
    connection = await person.connect("phone", actor=ANN)
    asked = await asyncio.gather(*(pend(agent, f"many_{number}") for number in range(20)))
    assert {one.request.tier for one in asked} == {"attended"}
    assert (await events_of(agent)).count("asked") == 21
    await connection.disconnect()


async def test_an_answer_beside_a_wrong_assumption_is_given_once(open_session: OpenSession) -> None:
    agent, person = await open_session(), await open_session()
    await pend(agent, "call_1")
    connection = await person.connect("phone", actor=ANN)
    answered, asked = await asyncio.gather(agent.reply("call_1", "once", actor=ANN), pend(agent, "call_2"))
    assert (answered.outcome, asked.request.tier) == ("allowed", "attended")
    assert (await events_of(agent)).count("replied") == 1
    await connection.disconnect()


async def test_an_inbox_counts_from_the_first_ask_of_a_process_on(open_ledger: OpenLedger) -> None:
    ledger = await open_ledger(clock=None)
    await renew_inbox(ledger.store, Inbox(Presence("inbox", ANN)))
    asked = await pend(await ledger.session("ses_1"), "call_1")
    assert (asked.request.tier, asked.request.present) == ("attended", (Presence("inbox", ANN),))


async def test_a_session_whose_lock_holder_answers_from_now_on_drops_nobody_by_an_assumption(
    open_session: OpenSession, open_ledger: OpenLedger
) -> None:
    agent = await open_session()
    await pend(agent, "call_1")
    other = await (await open_ledger(clock=None)).session("ses_1", answering="lock-holder")
    connection = await other.connect("phone", actor=ANN)
    assert (await pend(agent, "call_2")).request.tier == "attended"
    assert "client_disconnected" not in await events_of(agent)
    await connection.disconnect()


@pytest.mark.parametrize("member", [b"phone\n\xff\xfe", b"\xff"])
async def test_a_lease_that_is_no_text_counts_and_stops_no_ask(server: RealServer, member: bytes) -> None:
    async with Ledger.connect(server.url) as ledger:
        session = await ledger.session("ses_1")
        await pend(session, "call_1")
        store: Any = ledger.store
        await store.command("ZADD", store.keys.lease("ses_1"), "+inf", member)
        assert (await pend(session, "call_2")).request.tier == "attended"


async def test_where_leases_cannot_be_read_nobody_is_asked_to_answer_within_a_minute(server: RealServer) -> None:
    async with Ledger.connect(server.url) as ledger:
        session = await ledger.session("ses_1")
        await pend(session, "call_1")
        store: Any = ledger.store
        await store.command("SET", store.keys.lease("ses_1"), "of another program")
        assert (await pend(session, "call_2")).request.tier == "unattended"
