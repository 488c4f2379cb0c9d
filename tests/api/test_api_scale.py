"""Thousands of waiters share a few connections, and simultaneous appends are pipelined; on a real server."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from typing import Final

import pytest
from redis.asyncio import Redis

from ledger import Ledger, Session
from ledger.client import grounds
from ledger.core.limits import EVENTS_PER_APPEND_COUNT, POLICIES_KEPT_COUNT
from ledger.policy import PolicySource
from ledger.testing import TestClock
from tests.support.servers import RealServer
from tests.support.waiting import wait_until_async

SESSION_COUNT: Final = 100
CONNECTION_COUNT_MAX: Final = 4


@pytest.fixture(autouse=True)
def inboxes_are_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second look in the middle of many asks would part them, on a machine that needs a second for them."""
    monkeypatch.setattr(grounds, "INBOX_FRESH_SECONDS", 600.0)


@pytest.fixture
async def on_server(server: RealServer, clock: TestClock) -> AsyncIterator[Ledger]:
    async with Ledger.connect(server.url, clock=clock, entry_points=False) as ledger:
        yield ledger


async def calls(onlooker: Redis) -> Counter[str]:
    """Return how often the server ran each command so far, except those of this client."""
    stats = await onlooker.info("commandstats")
    return Counter({name.removeprefix("cmdstat_"): int(one["calls"]) for name, one in stats.items()})


async def ledger_connections(onlooker: Redis) -> int:
    return sum(client["name"] == "permission-ledger" for client in await onlooker.client_list())


@pytest.mark.parametrize("waiter_count", [300, pytest.param(2000, marks=pytest.mark.slow)])
async def test_waiters_share_at_most_four_connections(on_server: Ledger, onlooker: Redis, waiter_count: int) -> None:
    sessions = [await on_server.session(f"ses_{number}") for number in range(SESSION_COUNT)]
    asks = [
        asyncio.create_task(sessions[number % SESSION_COUNT].ask("bash", [f"ls {number}"], request_id=f"call_{number}"))
        for number in range(waiter_count)
    ]

    async def pending_count() -> bool:
        states = await asyncio.gather(*(session.state() for session in sessions))
        return sum(len(state.pending) for state in states) == waiter_count

    await wait_until_async(pending_count, "all to wait", timeout_s=60)
    assert await ledger_connections(onlooker) <= CONNECTION_COUNT_MAX
    await asyncio.gather(
        *(
            sessions[number % SESSION_COUNT].reply(f"call_{number}", "once", actor="ann")
            for number in range(waiter_count)
        )
    )
    results = await asyncio.gather(*asks)
    assert Counter(result.outcome for result in results) == {"allowed": waiter_count}
    assert await ledger_connections(onlooker) <= CONNECTION_COUNT_MAX


async def test_the_flags_of_a_new_server_are_compared_once_for_all_who_are_refused_at_once(
    on_server: Ledger, onlooker: Redis
) -> None:
    rules = [{"permission": "bash", "pattern": "*", "action": "allow"}]
    sessions = [await on_server.session(f"ses_{number}", rules=rules) for number in range(SESSION_COUNT)]
    before = await calls(onlooker)
    results = await asyncio.gather(*(session.ask("bash", ["ls"]) for session in sessions))
    assert {result.outcome for result in results} == {"allowed"}
    read = (await calls(onlooker) - before)["hgetall"]
    # Each partition's flag is read, and its script reads it again.
    assert read == 2 * on_server.store.partition_count


async def test_what_is_asked_of_one_session_at_once_leaves_as_one_append(on_server: Ledger, onlooker: Redis) -> None:
    session = await on_server.session("ses_1")
    await session.state()
    before = await calls(onlooker)
    results = await asyncio.gather(*(session.submit("bash", [f"ls {number}"]) for number in range(100)))
    appends = (await calls(onlooker) - before)["evalsha"]
    assert [result.version for result in results] == list(range(2, 102))
    # The first may be sent alone; those that came meanwhile follow together.
    assert 1 <= appends <= 2


@pytest.mark.slow
async def test_more_than_one_append_holds_leaves_in_as_few_as_it_takes(on_server: Ledger, onlooker: Redis) -> None:
    session = await on_server.session("ses_1")
    await session.state()
    before = await calls(onlooker)
    count = 3 * EVENTS_PER_APPEND_COUNT
    await asyncio.gather(*(session.submit("bash", [f"ls {number}"]) for number in range(count)))
    appends = (await calls(onlooker) - before)["evalsha"]
    assert 3 <= appends <= 4
    assert len((await session.state()).pending) == count


async def test_appends_of_many_sessions_leave_in_one_write(
    on_server: Ledger, onlooker: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    sessions = [await on_server.session(f"ses_{number}") for number in range(50)]
    await asyncio.gather(*(session.state() for session in sessions))
    writes = await count_writes(on_server, monkeypatch)
    before = await calls(onlooker)
    await asyncio.gather(*(session.submit("bash", ["ls"], request_id="call_1") for session in sessions))
    assert (await calls(onlooker) - before)["evalsha"] == len(sessions)
    # Leases of the inbox are looked up first, in a write of their own.
    assert len(writes) <= 4


async def count_writes(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    from redis.asyncio.connection import AbstractConnection  # noqa: PLC0415 - the call under test

    writes: list[int] = []
    sending = AbstractConnection.send_packed_command

    async def counted(self: AbstractConnection, command: list[bytes], check_health: bool = True) -> None:
        if "permission-ledger" in str(self.client_name):
            writes.append(len(command))
        await sending(self, command, check_health)

    monkeypatch.setattr(AbstractConnection, "send_packed_command", counted)
    return writes


async def test_who_waits_costs_the_server_nothing(on_server: Ledger, onlooker: Redis) -> None:
    session = await on_server.session("ses_1")
    asks = [asyncio.create_task(session.ask("bash", [f"ls {n}"], request_id=f"call_{n}")) for n in range(200)]
    await wait_until_async(lambda: _all_wait(session, 200), "all to wait")
    # The first allow on a server sets the flags of freezes.
    await session.reply("call_199", "once")
    before = await calls(onlooker)
    for number in range(10):
        await session.reply(f"call_{number}", "once")
    used = await calls(onlooker) - before
    assert used["evalsha"] == 10
    assert used["xrange"] <= 20
    for ask in asks:
        ask.cancel()
    await asyncio.wait(asks)


async def _all_wait(session: Session, count: int) -> bool:
    return len((await session.state()).pending) == count


async def test_compiled_policies_are_kept_in_a_bounded_number_and_made_again_when_asked_for(ledger: Ledger) -> None:
    first = ledger.policies.compiled(PolicySource(), "0")
    for number in range(1, POLICIES_KEPT_COUNT):
        ledger.policies.compiled(PolicySource(), f"{number}")
    assert ledger.policies.compiled(PolicySource(), "0") is first
    ledger.policies.compiled(PolicySource(), "one more")
    assert ledger.policies.compiled(PolicySource(), "0") is first
    for number in range(POLICIES_KEPT_COUNT):
        ledger.policies.compiled(PolicySource(), f"other {number}")
    again = ledger.policies.compiled(PolicySource(), "0")
    assert again is not first
    assert again.source == first.source
