"""Cancelled waits, withdrawn requests, and requests of a session that closes."""

from __future__ import annotations

import asyncio

import pytest

from ledger import CancelledError, Ledger, SessionClosedError
from ledger.testing import TestClock
from tests.api.actors import ANN, all_done, ask_and_wait, events_of, outcome_of, pend, pending_ids, raised


async def test_a_cancelled_ask_stays_pending_and_can_be_answered(ledger: Ledger) -> None:
    session = await ledger.session("ses_1")
    asking = await ask_and_wait(session, "call_1")
    asking.cancel()
    await asyncio.wait([asking])
    assert asking.cancelled()
    assert await pending_ids(session) == ["call_1"]
    await session.reply("call_1", "once", actor=ANN)
    assert (await session.ask("bash", ["git push"], request_id="call_1")).outcome == "allowed"


async def test_a_task_group_that_fails_leaves_its_asks_pending(ledger: Ledger) -> None:
    session = await ledger.session("ses_1")

    async def group() -> None:
        async with asyncio.TaskGroup() as tasks:
            for number in range(3):
                tasks.create_task(session.ask("bash", [f"ls {number}"], request_id=f"call_{number}"))
            while len(await session.pending()) < 3:
                pass
            raise LookupError

    with pytest.raises(ExceptionGroup) as caught:
        await group()
    assert [type(one) for one in caught.value.exceptions] == [LookupError]
    assert await pending_ids(session) == ["call_0", "call_1", "call_2"]
    assert await events_of(session) == ["session_opened", "asked", "asked", "asked"]


async def test_a_denied_ask_ends_its_task_group_with_the_ledgers_error(ledger: Ledger) -> None:
    session = await ledger.session("ses_1", rules=[{"permission": "rm", "pattern": "*", "action": "deny"}])

    async def group() -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(session.ask("rm", ["x"]))
            tasks.create_task(session.ask("bash", ["ls"], request_id="call_1"))

    with pytest.raises(ExceptionGroup) as caught:
        await group()
    assert [getattr(one, "code", None) for one in caught.value.exceptions] == ["DENIED"]


async def test_a_timeout_around_an_ask_leaves_it_pending(ledger: Ledger) -> None:
    session = await ledger.session("ses_1")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await session.ask("bash", ["git push"], request_id="call_1")
    assert await pending_ids(session) == ["call_1"]


async def test_waiting_no_longer_than_a_time_tells_where_the_request_stands_then(ledger: Ledger) -> None:
    session = await ledger.session("ses_1")
    await pend(session, "call_1")
    assert (await session.wait("call_1", timeout=0.01)).outcome is None
    await session.reply("call_1", "once")
    assert (await session.wait("call_1", timeout=5)).outcome == "allowed"
    assert (await raised(session.wait("call_9", timeout=5))).code == "UNKNOWN_REQUEST"


async def test_an_ask_cancelled_while_its_append_is_on_its_way_is_written_and_attachable(ledger: Ledger) -> None:
    session = await ledger.session("ses_1")
    asking = asyncio.create_task(session.ask("bash", ["git push"], request_id="call_1"))
    await asyncio.wait([asyncio.create_task(session.state())])
    asking.cancel()
    await asyncio.wait([asking])
    again = await session.submit("bash", ["git push"], request_id="call_1")
    assert (again.outcome, await events_of(session)) == (None, ["session_opened", "asked"])


async def test_one_of_many_waiters_that_leaves_disturbs_no_other(ledger: Ledger) -> None:
    session = await ledger.session("ses_1")
    asks = [await ask_and_wait(session, "call_1") for _ in range(5)]
    asks[2].cancel()
    await asyncio.wait([asks[2]])
    await session.reply("call_1", "once")
    assert await all_done([*asks[:2], *asks[3:]]) == ["allowed"] * 4


@pytest.mark.parametrize("cause", ["asker_gave_up", "asker_died", "withdrawn"])
async def test_a_request_is_cancelled_only_when_the_caller_says_so(ledger: Ledger, cause: str) -> None:
    session = await ledger.session("ses_1")
    asking = await ask_and_wait(session, "call_1")
    done = await session.cancel("call_1", cause=cause, reason="the turn was aborted")  # type: ignore[arg-type]
    error = await raised(asking)
    assert isinstance(error, CancelledError)
    assert (done.outcome, error.code, error.agent) == ("cancelled", "CANCELLED", "continue")
    assert error.text.endswith("(the turn was aborted)")
    assert await pending_ids(session) == []


async def test_cancelling_again_writes_nothing_and_a_settled_request_cannot_be_cancelled(ledger: Ledger) -> None:
    session = await ledger.session("ses_1")
    await pend(session, "call_1")
    await ledger.cancel("call_1", reason="x")
    assert (await ledger.cancel("call_1")).outcome == "cancelled"
    assert await events_of(session) == ["session_opened", "asked", "cancelled"]
    await pend(session, "call_2", "ls")
    await session.reply("call_2", "once", actor=ANN)
    error = await raised(session.cancel("call_2"))
    assert (error.code, error.text) == ("ALREADY_ANSWERED", "request `call_2` was already allowed by ann (once)")
    assert (await raised(session.cancel("call_9"))).code == "UNKNOWN_REQUEST"


async def test_a_reply_to_a_cancelled_request_is_told(ledger: Ledger) -> None:
    session = await ledger.session("ses_1")
    await pend(session, "call_1")
    await session.cancel("call_1", actor="worker-7")
    error = await raised(session.reply("call_1", "once"))
    assert (error.code, error.text) == ("ALREADY_ANSWERED", "request `call_1` was already cancelled by worker-7")


async def test_closing_a_session_cancels_what_is_pending_and_nothing_more_is_asked(ledger: Ledger) -> None:
    session = await ledger.session("ses_1")
    asks = [await ask_and_wait(session, f"call_{number}", f"ls {number}") for number in range(2)]
    await session.close(reason="done")
    assert await all_done(asks) == ["CANCELLED", "CANCELLED"]
    error = await raised(session.ask("bash", ["ls"]))
    assert isinstance(error, SessionClosedError)
    assert (error.code, error.text) == ("SESSION_CLOSED", "session `ses_1` is closed")
    before = await events_of(session)
    await session.close()
    assert (
        await events_of(session)
        == before
        == [
            "session_opened",
            "asked",
            "asked",
            "cancelled",
            "cancelled",
            "session_closed",
        ]
    )


async def test_a_closed_session_still_tells_what_came_of_its_requests(ledger: Ledger, clock: TestClock) -> None:
    session = await ledger.session("ses_1")
    await pend(session, "call_1")
    await session.reply("call_1", "once")
    await session.close()
    assert (await session.submit("bash", ["git push"], request_id="call_1")).outcome == "allowed"
    assert (await session.reply("call_1", "once")).outcome == "allowed"
    assert await outcome_of(session, "call_1") == "allowed"
    assert (await raised(session.connect("phone", actor=ANN))).code == "SESSION_CLOSED"
    assert (await raised(session.grant("bash"))).code == "SESSION_CLOSED"


async def test_closing_the_ledger_leaves_its_asks_pending_for_others(
    url: str, clock: TestClock, ledger: Ledger
) -> None:
    async with Ledger.connect(url, clock=clock, entry_points=False) as leaving:
        asking = await ask_and_wait(await leaving.session("ses_1"), "call_1")
    asking.cancel()
    await asyncio.wait([asking])
    assert [one.request.request_id for one in await ledger.pending()] == ["call_1"]
