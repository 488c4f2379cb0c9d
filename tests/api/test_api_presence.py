"""Presence, deadlines and answering rights: `betcode.md` and DESIGN's table of tiers."""

from __future__ import annotations

import asyncio

import pytest

from ledger import Ledger, NoInputLockError, Timeouts
from ledger.core.events import Presence
from ledger.log.inboxes import InboxReach
from ledger.testing import TestClock
from tests.api.actors import ANN, BOB, OpenLedger, ask_and_wait, events_of, outcome_of, pend, pending_ids, raised


async def deadline_in_s(ledger: Ledger, request_id: str) -> float | None:
    """Return the seconds from now until a request of `ses_1` expires."""
    request = (await (await ledger.attach("ses_1")).result(request_id)).request
    return None if request.deadline_ms is None else (request.deadline_ms - ledger.store.clock.now_ms()) / 1000


async def test_attended_is_who_has_a_client_connected_when_asked(ledger: Ledger, clock: TestClock) -> None:
    session = await ledger.session("ses_1")
    await session.connect("phone", actor=ANN)
    asked = await pend(session, "call_1")
    assert (asked.request.tier, await deadline_in_s(ledger, "call_1")) == ("attended", 60)
    assert [(one.client_id, one.name) for one in asked.request.present] == [("phone", "ann")]


async def test_an_attended_request_expires_after_60_s_with_the_text_of_the_spec(
    ledger: Ledger, clock: TestClock
) -> None:
    session = await ledger.session("ses_1")
    connection = await session.connect("phone", actor=ANN)
    asking = await ask_and_wait(session, "call_1")
    for _ in range(6):
        await connection.renew()
        clock.advance("10s")
    error = await raised(asking)
    assert (error.code, error.text) == ("EXPIRED", "Permission request timed out after 60 seconds.")


async def test_an_attended_request_whose_people_have_gone_moves_once_to_the_unattended_tier(
    ledger: Ledger, clock: TestClock
) -> None:
    session = await ledger.session("ses_1")
    connection = await session.connect("phone", actor=ANN)
    await pend(session, "call_1")
    await connection.disconnect()
    clock.advance("60s")
    await pend(session, "call_2", "ls")
    assert (await deadline_in_s(ledger, "call_1"), await outcome_of(session, "call_1")) == (7 * 86_400, None)
    assert "deadline_moved" in await events_of(session)
    clock.advance("7d")
    assert (await raised(session.reply("call_1", "once"))).code == "PERMISSION_STALE"
    assert (await session.result("call_1")).message == "Permission request expired after 7 days."


async def test_a_client_whose_lease_ran_out_is_disconnected_before_anything_is_settled(
    ledger: Ledger, clock: TestClock
) -> None:
    session = await ledger.session("ses_1", answering="lock-holder")
    await session.connect("phone", actor=ANN)
    await pend(session, "call_1")
    clock.advance("60s")
    await session.submit("bash", ["ls"], request_id="call_2")
    assert (await events_of(session))[-4:] == ["client_disconnected", "lock_passed", "deadline_moved", "asked"]
    assert (await session.result("call_2")).request.tier == "unattended"


async def test_an_unattended_request_is_never_attended_again_and_each_connection_gives_it_its_time_anew(
    ledger: Ledger, clock: TestClock
) -> None:
    session = await ledger.session("ses_1")
    await pend(session, "call_1")
    clock.advance("6d")
    await session.connect("phone", actor=ANN)
    assert (await deadline_in_s(ledger, "call_1")) == 7 * 86_400
    assert (await session.result("call_1")).request.tier == "unattended"


async def test_no_connection_extends_a_request_beyond_30_days_from_the_ask(ledger: Ledger, clock: TestClock) -> None:
    session = await ledger.session("ses_1")
    await pend(session, "call_1")
    for _ in range(5):
        clock.advance("6d")
        if await outcome_of(session, "call_1") is None:
            connection = await session.connect("phone", actor=ANN)
            await connection.disconnect()
    assert (await raised(session.reply("call_1", "once"))).code == "PERMISSION_STALE"
    at = (await session.result("call_1")).request
    assert at.cap_at_ms == at.asked_ms + 30 * 86_400_000


async def test_all_times_are_the_sessions_own(ledger: Ledger, clock: TestClock) -> None:
    session = await ledger.session("ses_1", timeouts=Timeouts(attended=5, unattended=3600, cap=7200))
    await pend(session, "call_1")
    assert await deadline_in_s(ledger, "call_1") == 3600
    await session.connect("phone", actor=ANN)
    await pend(session, "call_2", "ls")
    assert await deadline_in_s(ledger, "call_2") == 5


async def test_pending_requests_are_replayed_in_order_of_asking_to_who_connects(
    ledger: Ledger, open_ledger: OpenLedger, clock: TestClock
) -> None:
    session = await ledger.session("ses_1")
    for number in range(3):
        await pend(session, f"call_{number}", f"ls {number}")
        clock.advance("5s")
    elsewhere = await (await open_ledger()).attach("ses_1")
    connection = await elsewhere.connect("phone", actor=ANN)
    assert [(one.request.request_id, one.is_replay) for one in connection.replayed] == [
        ("call_0", True),
        ("call_1", True),
        ("call_2", True),
    ]


async def test_connecting_again_replays_again_and_is_one_client(ledger: Ledger) -> None:
    session = await ledger.session("ses_1")
    await pend(session, "call_1")
    for _ in range(2):
        connection = await session.connect("phone", actor=ANN)
        assert [one.request.request_id for one in connection.replayed] == ["call_1"]
    assert [one.client_id for one in await session.present() or ()] == ["phone"]
    assert await events_of(session) == ["session_opened", "asked"]


async def test_a_connection_is_a_block_that_disconnects_at_its_end(ledger: Ledger) -> None:
    session = await ledger.session("ses_1", answering="lock-holder")
    async with await session.connect("phone", actor=ANN) as connection:
        await pend(session, "call_1")
        assert (await connection.reply("call_1", "once")).by.name == "ann"
    assert await events_of(session) == [
        "session_opened",
        "client_connected",
        "lock_taken",
        "asked",
        "replied",
        "client_disconnected",
        "lock_passed",
    ]


async def test_who_has_the_inbox_open_is_present_for_every_session(
    ledger: Ledger, open_ledger: OpenLedger, clock: TestClock
) -> None:
    one, two = await ledger.session("ses_1"), await ledger.session("ses_2")
    await pend(one, "call_1")
    people = await open_ledger()
    replayed = await people.connect_inbox("laptop", actor=ANN)
    assert [(item.session, item.request.request_id, item.is_replay) for item in replayed] == [("ses_1", "call_1", True)]
    asked = await pend(two, "call_2")
    assert (asked.request.tier, [one.name for one in asked.request.present]) == ("attended", ["ann"])
    await people.disconnect_inbox("laptop", actor=ANN)
    assert (await pend(two, "call_3", "ls")).request.tier == "unattended"


async def test_who_sees_some_projects_in_the_inbox_is_present_in_their_sessions_also_those_to_come(
    ledger: Ledger, open_ledger: OpenLedger
) -> None:
    waiting = await ledger.session("ses_1", project="shop")
    elsewhere = await ledger.session("ses_2", project="bank")
    for session in (waiting, elsewhere):
        await pend(session, "call_1")
    people, reach = await open_ledger(), InboxReach(projects=("shop", "ses_5"))
    replayed = await people.connect_inbox("laptop", actor=ANN, reach=reach)
    assert [(item.session, item.request.request_id) for item in replayed] == [("ses_1", "call_1")]
    opened_later = {
        "ses_3": await ledger.session("ses_3", project="shop"),
        "ses_4": await ledger.session("ses_4", project="bank"),
        "ses_5": await ledger.session("ses_5"),
        "ses_6": await ledger.session("ses_6"),
    }
    tiers = {name: (await pend(one, "call_2")).request.tier for name, one in opened_later.items()}
    assert tiers == {"ses_3": "attended", "ses_4": "unattended", "ses_5": "attended", "ses_6": "unattended"}
    assert (await pend(elsewhere, "call_2")).request.tier == "unattended"
    assert await opened_later["ses_3"].present() == (Presence("laptop", "ann"),)
    assert await opened_later["ses_4"].present() == ()
    await people.disconnect_inbox("laptop", actor=ANN)
    assert (await pend(opened_later["ses_3"], "call_3", "ls")).request.tier == "unattended"


async def test_who_sees_some_sessions_in_the_inbox_is_present_in_those(ledger: Ledger) -> None:
    both = InboxReach(projects=("shop",), sessions=("ses_1", "ses_3"))
    await ledger.connect_inbox("laptop", actor=ANN, reach=both)
    sessions = [
        await ledger.session(name, project=project)
        for name, project in (("ses_1", "shop"), ("ses_2", "shop"), ("ses_3", "bank"))
    ]
    assert [(await pend(one, "call_1")).request.tier for one in sessions] == ["attended", "unattended", "unattended"]


async def test_an_inbox_that_sees_some_projects_has_a_lease_too(ledger: Ledger, clock: TestClock) -> None:
    reach = InboxReach(projects=("shop",))
    await ledger.connect_inbox("laptop", actor=ANN, reach=reach)
    session = await ledger.session("ses_1", project="shop")
    clock.advance("29s")
    await ledger.renew_inbox("laptop", actor=ANN, reach=reach)
    clock.advance("29s")
    assert (await pend(session, "call_1")).request.tier == "attended"
    clock.advance("31s")
    assert (await pend(session, "call_2", "ls")).request.tier == "unattended"


@pytest.mark.parametrize("lease", ["ann", "{}", '{"name": "ann"}', '{"name": "ann", "projects": "shop"}'])
async def test_a_lease_that_does_not_say_what_it_reaches_makes_nobody_present(ledger: Ledger, lease: str) -> None:
    session = await ledger.session("ses_1", project="shop")
    await ledger.store.lease(None, Presence("laptop", lease), 30_000)
    assert (await pend(session, "call_1")).request.tier == "unattended"


async def test_who_leaves_the_inbox_disconnects_no_device_of_others(ledger: Ledger) -> None:
    session = await ledger.session("ses_1")
    await session.connect("laptop", actor=ANN)
    await pend(session, "call_1")
    await ledger.disconnect_inbox("laptop", actor="bob")
    assert list((await session.state()).clients) == ["laptop"]


async def test_the_inbox_has_a_lease_too(ledger: Ledger, clock: TestClock) -> None:
    await ledger.connect_inbox("laptop", actor=ANN)
    session = await ledger.session("ses_1")
    clock.advance("29s")
    await ledger.renew_inbox("laptop", actor=ANN)
    clock.advance("29s")
    assert (await pend(session, "call_1")).request.tier == "attended"
    clock.advance("31s")
    assert (await pend(session, "call_2", "ls")).request.tier == "unattended"


# --- the input lock ---------------------------------------------------------------------------------------------------


async def test_anyone_may_answer_unless_the_session_says_otherwise(ledger: Ledger) -> None:
    session = await ledger.session("ses_1")
    await session.connect("phone", actor=ANN)
    await pend(session, "call_1")
    assert (await session.reply("call_1", "once", actor=BOB)).outcome == "allowed"


async def test_only_the_holder_of_the_lock_may_answer_where_the_session_wants_it(ledger: Ledger) -> None:
    session = await ledger.session("ses_1", answering="lock-holder")
    phone = await session.connect("phone", actor=ANN)
    laptop = await session.connect("laptop", actor=BOB)
    await pend(session, "call_1")
    for refused in (laptop.reply("call_1", "once"), session.reply("call_1", "once", actor=BOB)):
        error = await raised(refused)
        assert isinstance(error, NoInputLockError)
        assert (error.code, error.data["holder"]) == ("NO_INPUT_LOCK", "phone")
    assert await pending_ids(session) == ["call_1"]
    assert (await phone.reply("call_1", "once")).outcome == "allowed"


async def test_an_administrator_may_answer_without_the_lock_and_it_is_marked(ledger: Ledger) -> None:
    session = await ledger.session("ses_1", answering="lock-holder")
    await session.connect("phone", actor=ANN)
    await pend(session, "call_1")
    await session.reply("call_1", "once", actor="root", administrator=True)
    [replied] = [event.as_json() async for event in session.events(4, follow_on=False)]
    assert (replied["actor"]["name"], replied["event"]["override"]) == ("root", True)


async def test_a_connecting_client_takes_a_free_lock_and_hands_it_on_to_the_longest_connected(
    ledger: Ledger, clock: TestClock
) -> None:
    session = await ledger.session("ses_1", answering="lock-holder")
    first = await session.connect("first", actor=ANN)
    for name in ("second", "third"):
        clock.advance("1s")
        await session.connect(name, actor=BOB)
    assert (await session.state()).lock == "first"
    await first.disconnect()
    assert (await session.state()).lock == "second"


async def test_a_lock_that_is_asked_for_passes_after_10_s(ledger: Ledger, clock: TestClock) -> None:
    session = await ledger.session("ses_1", answering="lock-holder")
    await session.connect("first", actor=ANN)
    await session.connect("second", actor=BOB)
    assert await session.take_lock("second", actor=BOB) is False
    clock.advance(9_999)
    assert await session.take_lock("second", actor=BOB) is False
    clock.advance(1)
    assert await session.take_lock("second", actor=BOB) is True
    assert (await session.state()).lock == "second"


async def test_a_lock_can_be_passed_by_its_holder_only(ledger: Ledger) -> None:
    session = await ledger.session("ses_1", answering="lock-holder")
    await session.connect("first", actor=ANN)
    await session.connect("second", actor=BOB)
    error = await raised(session.pass_lock("second", "second", actor=BOB))
    assert error.text == "client `second` does not hold the input lock of session `ses_1`"
    await session.pass_lock("first", "second", actor=ANN)
    assert (await session.state()).lock == "second"


@pytest.mark.parametrize("client_id", ["ghost"])
async def test_who_is_not_connected_cannot_take_the_lock(ledger: Ledger, client_id: str) -> None:
    session = await ledger.session("ses_1", answering="lock-holder")
    error = await raised(session.take_lock(client_id))
    assert error.text == "client `ghost` is not connected to session `ses_1`"


async def test_an_agent_that_has_not_read_since_still_sees_who_connected(open_ledger: OpenLedger) -> None:
    agent, phone = await open_ledger(), await open_ledger()
    session = await agent.session("ses_1")
    connection = await (await phone.attach("ses_1")).connect("phone", actor=ANN)
    asked = await pend(session, "r1")
    assert asked.request.tier == "attended"
    assert "client_disconnected" not in await events_of(session)
    await connection.disconnect()


async def test_clients_that_connect_at_the_same_moment_do_not_drop_one_another(open_ledger: OpenLedger) -> None:
    await (await open_ledger()).session("ses_1", answering="lock-holder")
    ledgers = [await open_ledger() for _ in range(5)]
    sessions = [await ledger.attach("ses_1") for ledger in ledgers]
    connections = await asyncio.gather(*(one.connect(f"c{i}", actor=ANN) for i, one in enumerate(sessions)))
    state = await sessions[0].state()
    assert sorted(state.clients) == [f"c{i}" for i in range(5)]
    for connection in connections:
        await connection.disconnect()
