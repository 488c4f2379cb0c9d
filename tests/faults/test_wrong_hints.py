"""Foreign values at the keys of hints while agents ask and people answer: no decision depends on a hint."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

import pytest

from ledger import ExpiredError, Ledger, Timeouts
from ledger.core.events import DeadlineMoved
from ledger.stores.keys import Keys
from ledger.stores.port import StreamKey
from ledger.testing import TestClock
from tests.api.actors import ask_and_wait, events_of, pend
from tests.support.backends import PARTITION_COUNT, Operator
from tests.support.servers import RealServer
from tests.support.waiting import wait_until_async

KEYS: Final = Keys(PARTITION_COUNT)
PARTITION: Final = StreamKey("session", "ses_1").partition(KEYS.count)

HINTS: Final = {
    "deadlines": KEYS.due(PARTITION),
    "feed": KEYS.feed(PARTITION),
    "leases": KEYS.lease("ses_1"),
    "inbox": KEYS.lease(None),
}


@pytest.fixture
async def ledger(server: RealServer, clock: TestClock) -> AsyncIterator[Ledger]:
    connecting = Ledger.connect(server.url, clock=clock, partitions=PARTITION_COUNT, entry_points=False)
    async with connecting as ledger:
        yield ledger


async def put_something_else(admin: Operator, hint: str) -> None:
    await admin.run("DEL", HINTS[hint])
    await admin.run("SET", HINTS[hint], "something else")


@pytest.mark.parametrize("hint", HINTS)
async def test_an_ask_is_answered_whatever_lies_at_a_hints_key(ledger: Ledger, admin: Operator, hint: str) -> None:
    session = await ledger.session("ses_1")
    await put_something_else(admin, hint)
    asked = await ask_and_wait(session, "r1")
    await session.reply("r1", "once", actor="ann")
    assert (await asked).by.name == "ann"
    assert await events_of(session) == ["session_opened", "asked", "replied"]
    assert await admin.run("GET", HINTS[hint]) == b"something else"


@pytest.mark.parametrize("hint", HINTS)
async def test_a_request_ends_at_its_deadline_whatever_lies_at_a_hints_key(
    ledger: Ledger, admin: Operator, clock: TestClock, hint: str
) -> None:
    session = await ledger.session("ses_1", timeouts=Timeouts(attended=60, unattended=600))
    asked = await ask_and_wait(session, "r1")
    await put_something_else(admin, hint)
    clock.advance("10m")
    with pytest.raises(ExpiredError):
        await asked


@pytest.mark.parametrize("hint", ["leases", "inbox"])
async def test_presence_that_cannot_be_read_moves_the_deadline_and_never_ends_it(
    ledger: Ledger, admin: Operator, clock: TestClock, hint: str
) -> None:
    """The second deadline ends it: nothing waits for ever."""
    session = await ledger.session("ses_1", timeouts=Timeouts(attended=60, unattended=600))
    await session.connect("phone", actor="ann")
    asked = await ask_and_wait(session, "r1")
    await put_something_else(admin, hint)
    clock.advance("60s")

    async def is_moved() -> bool:
        return "deadline_moved" in await events_of(session)

    await wait_until_async(is_moved, "the deadline to move")
    moved = [one.event async for one in session.events(follow_on=False) if isinstance(one.event, DeadlineMoved)]
    assert [one.present for one in moved] == [None]
    clock.advance("10m")
    with pytest.raises(ExpiredError):
        await asked


async def test_an_answer_after_the_deadline_of_another_request_counts_whatever_lies_at_the_leases(
    ledger: Ledger, admin: Operator, clock: TestClock
) -> None:
    session = await ledger.session("ses_1", timeouts=Timeouts(attended=20, unattended=600))
    connection = await session.connect("phone", actor="ann")
    clock.advance("25s")
    await connection.renew()
    await pend(session, "r1")
    clock.advance("10s")
    await pend(session, "r2", "git pull")
    await put_something_else(admin, "leases")
    clock.advance("10s")
    assert (await session.reply("r2", "once", actor="ann")).allowed
