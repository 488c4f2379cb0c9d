"""A ledger closed while calls are in flight: they get an error, and nothing reconnects."""

from __future__ import annotations

import asyncio

import pytest

from ledger import InDoubtError, Ledger, Result, StoreError
from tests.support.servers import RealServer

ALLOW = [{"permission": "bash", "pattern": "*", "action": "allow"}]


async def test_who_still_asks_when_the_ledger_is_closed_is_told_and_nothing_goes_on(server: RealServer) -> None:
    async with Ledger.connect(server.url) as ledger:
        session = await ledger.session("ses_1", rules=ALLOW)
        await session.ask("bash", ["ls"])
        asks = [asyncio.create_task(session.ask("bash", [f"ls {number}"])) for number in range(3)]
        await asyncio.wait(asks, timeout=0)  # they have started
    told = await asyncio.gather(*asks, return_exceptions=True)
    assert all(isinstance(one, Result | StoreError | InDoubtError) for one in told)
    assert not [task.get_name() for task in asyncio.all_tasks() if task.get_name().startswith(("drain", "ledger"))]


async def test_a_closed_ledger_says_so(server: RealServer) -> None:
    async with Ledger.connect(server.url) as ledger:
        session = await ledger.session("ses_1", rules=ALLOW)
    with pytest.raises(StoreError, match="this ledger is closed; connect again"):
        await session.ask("bash", ["ls"])
