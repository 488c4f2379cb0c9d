"""A session in which a later version has written: waiters get an error, and never an allow."""

from __future__ import annotations

import asyncio
from typing import Final

import pytest

from ledger import Ledger, NewerSchemaError
from ledger.core.commitments import after_entry
from ledger.stores.port import StreamKey
from tests.api.actors import OpenLedger
from tests.support.backends import written
from tests.support.waiting import wait_until_async

KEY: Final = StreamKey("session", "ses_1")
REFUSED: Final = "session `ses_1` holds events of a newer version; upgrade this worker"


async def something_new(ledger: Ledger) -> None:
    """Append a new event, as a worker of a later version does."""
    last = (await ledger.store.open(KEY)).entries[-1]
    payload = (
        b'{"v":4,"id":"evt_new","prev":"%b","actor":{"kind":"agent","name":"claude"},"event":{"type":"vetoed"}}'
        % after_entry(*last[:3]).encode()
    )
    await written(ledger.store, payload, key=KEY, after=last.position)


async def test_who_waits_is_told_to_upgrade_instead_of_waiting_for_ever(open_ledger: OpenLedger) -> None:
    old, other = await open_ledger(), await open_ledger()
    session = await old.session("ses_1")
    await session.submit("bash", ["make"], request_id="r")
    waiter = asyncio.create_task(session.wait("r"))
    await wait_until_async(lambda: session.stream.observed, "the waiter")
    await something_new(other)
    async with asyncio.timeout(60):
        with pytest.raises(NewerSchemaError) as caught:
            await waiter
    assert (caught.value.text, caught.value.code) == (REFUSED, "NEWER_SCHEMA")


async def test_an_allow_that_something_new_may_have_ended_is_not_acted_on(open_ledger: OpenLedger) -> None:
    old = await open_ledger()
    session = await old.session("ses_1")
    await session.submit("bash", ["make"], request_id="r")
    await session.reply("r", "once", actor="ann")
    await something_new(old)
    await session.stream.refresh()
    for timeout in (None, 0):
        with pytest.raises(NewerSchemaError):
            await session.wait("r", timeout)
    with pytest.raises(NewerSchemaError):
        await session.ask("bash", ["make"], request_id="r")


async def test_other_sessions_go_on(open_ledger: OpenLedger) -> None:
    old = await open_ledger()
    await old.session("ses_1")
    other = await old.session("ses_2", rules={"permission": {"bash": "allow"}})
    await something_new(old)
    assert (await other.ask("bash", ["make"])).outcome == "allowed"
