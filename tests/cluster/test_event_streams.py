"""Event streams of gateways whose ledger is on a cluster, or behind sentinels, while a server of it is killed.

Two gateways, each with connections of its own. Readers of a session see each event once and in its order; one that
resumes from any id at the other gateway receives the missing events, and nothing twice. Readers of the whole ledger are
told of every request, or to read again.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from ledger import Ledger, StoreError
from tests.cluster.conftest import OpenLedger
from tests.cluster.test_cluster_faults import key_of, promoted
from tests.gateway.callers import Caller, served
from tests.gateway.events.listening import Listener, Told, brief, listening
from tests.support.clusters import FAILOVER_S, Cluster, Sentinels, in_step
from tests.support.waiting import pause, wait_until_async

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(180)]

SESSIONS: Final = [f"ses_{number}" for number in range(12)]
ROUNDS: Final = 4
Brief = tuple[str, str | None, str | None]
Deed = Callable[[], Awaitable[None]]


@pytest.fixture
def sentinels(shared_sentinels: Sentinels) -> Sentinels:
    shared_sentinels.mend()
    return shared_sentinels


class Gateways:
    """Two gateways on one ledger, each with a caller who may see everything."""

    def __init__(self, open_ledger: OpenLedger, url: str, stack: AsyncExitStack) -> None:
        self._open_ledger = open_ledger
        self._url = url
        self._stack = stack
        self.writer: Ledger

    async def start(self) -> tuple[Caller, Caller]:
        folder = Path(tempfile.mkdtemp(prefix="pl-gw-"))
        self._stack.callback(shutil.rmtree, folder)
        self.writer = await self._open_ledger(self._url)
        text = (await self.writer.tokens.create("root", "admin")).text
        first, second = [
            await self._stack.enter_async_context(served(await self._open_ledger(self._url), folder / name))
            for name in ("a", "b")
        ]
        return first.caller_with(text), second.caller_with(text)

    async def write(self, begin: int, end: int) -> None:
        """Ask and reply `count` times in every session, despite any failure meanwhile."""
        await asyncio.gather(*(self._write(session, begin, end) for session in SESSIONS))

    async def _write(self, session: str, begin: int, end: int) -> None:
        handle = await self.writer.attach(session)
        for number in range(begin, end):
            await _until_done(lambda: handle.submit("bash", ["make"], request_id=f"r{number}"))  # noqa: B023
            await _until_done(lambda: handle.reply(f"r{number}", "once", actor="ann"))  # noqa: B023


async def _until_done(command: Callable[[], Awaitable[object]]) -> None:
    """Repeat a command until it succeeds: it may be in doubt or unroutable while a server is replaced."""
    async with asyncio.timeout(FAILOVER_S * 2):
        while True:
            try:
                await command()
            except StoreError:
                await pause()
            else:
                return


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as stack:
        yield stack


def expected(session: str, begin: int, end: int) -> list[Brief]:
    names = ("permission.asked", "permission.replied")
    return [(name, session, f"r{number}") for number in range(begin, end) for name in names]


async def told_of(listener: Listener, wanted: set[Brief]) -> None:
    """Return when a reader of the whole ledger was told of all of these, or to read again after the last began."""
    async with asyncio.timeout(FAILOVER_S * 3):
        while wanted and (one := await listener.next()) is not None:
            wanted = set() if one.name == "resync" else wanted - {brief(one)}


async def read_some(listener: Listener, count: int) -> list[Told]:
    told: list[Told] = []
    async with asyncio.timeout(FAILOVER_S * 3):
        while len(told) < count:
            one = await listener.next()
            assert one is not None, "the stream ended"
            assert one.name not in ("resync", "snapshot.end"), f"told to begin anew after {len(told)} events"
            told.append(one)
    return told


async def check_through(gateways: Gateways, callers: tuple[Caller, Caller], begin: Deed, end: Deed) -> None:
    """Check the events that readers see before, during and after a failover, and those of readers who resume elsewhere.

    `begin` comes while nobody writes, `end` while everybody does.
    """
    here, there = callers
    for session in SESSIONS:
        await gateways.writer.session(session, project="shop")
    path = "/v1/sessions/ses_0/events"
    first = {one for session in SESSIONS for one in expected(session, 0, ROUNDS)}
    second = {one for session in SESSIONS for one in expected(session, ROUNDS, 2 * ROUNDS)}
    async with (
        listening(here, "/v1/events") as of_all,
        listening(here, path) as of_one,
        listening(there, "/v1/events") as other,
    ):
        begun = (await of_one.named("snapshot.end"))[-1]
        for listener in (of_all, other):
            await listener.named("stream.open")
        await gateways.write(0, ROUNDS)
        for listener in (of_all, other):
            await told_of(listener, first)
        await begin()
        await asyncio.gather(gateways.write(ROUNDS, 2 * ROUNDS), end())
        for listener in (of_all, other):
            await told_of(listener, second)
        told = await read_some(of_one, len(expected("ses_0", 0, 2 * ROUNDS)))
    assert [brief(one) for one in told] == expected("ses_0", 0, 2 * ROUNDS)
    everything = [begun, *told]
    for index in range(0, len(everything), 3):
        async with listening(there, path, everything[index].last_id) as again:
            assert await read_some(again, len(everything) - index - 1) == everything[index + 1 :]


async def nothing() -> None:
    pass


async def test_readers_on_a_cluster_miss_nothing_and_hear_nothing_twice_when_a_node_hands_over(
    mortal: Cluster, open_ledger: OpenLedger, stack: AsyncExitStack
) -> None:
    gateways = Gateways(open_ledger, mortal.url, stack)
    callers = await gateways.start()

    async def hand_over() -> None:
        heir = mortal.replica_of(mortal.primary_of(key_of(gateways.writer, "ses_0")))
        await asyncio.to_thread(mortal.hand_over_to, heir)

    await check_through(gateways, callers, nothing, hand_over)


async def test_readers_on_a_cluster_miss_nothing_and_hear_nothing_twice_when_a_node_is_killed(
    mortal: Cluster, open_ledger: OpenLedger, stack: AsyncExitStack
) -> None:
    gateways = Gateways(open_ledger, mortal.url, stack)
    callers = await gateways.start()
    victim = mortal.primary_of(key_of(gateways.writer, "ses_0"))
    heir = mortal.replica_of(victim)

    async def kill() -> None:
        # Entries that only the victim has are lost with it, and readers would rightly start again.
        await wait_until_async(lambda: asyncio.to_thread(in_step, victim, heir), "the replica to be in step")
        victim.kill9()

    await check_through(gateways, callers, kill, partial(promoted, mortal, heir))


async def test_readers_behind_sentinels_miss_nothing_and_hear_nothing_twice_when_the_primary_is_replaced(
    sentinels: Sentinels, open_ledger: OpenLedger, stack: AsyncExitStack
) -> None:
    gateways = Gateways(open_ledger, sentinels.url, stack)
    callers = await gateways.start()

    before = sentinels.primary()

    async def kill() -> None:
        await asyncio.to_thread(sentinels.wait_until_in_step)
        before.kill9()

    async def replaced() -> None:
        await wait_until_async(
            lambda: asyncio.to_thread(lambda: sentinels.primary() is not before), "the failover", FAILOVER_S
        )

    await check_through(gateways, callers, kill, replaced)
