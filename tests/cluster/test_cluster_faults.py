"""Primaries killed, promoted and emptied of slots while agents ask: nothing is lost, nothing decided twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

import pytest

from ledger import Durability, InDoubtError, Ledger
from ledger.core.events import LogRegressed
from ledger.log.tail import read_events
from ledger.stores.port import StreamKey
from tests.cluster.conftest import OpenLedger
from tests.support.askers import ALLOW, ASK, Asker, check_log, replies_in
from tests.support.backends import as_redis
from tests.support.clusters import FAILOVER_S, Cluster, Node, in_step
from tests.support.waiting import wait_until, wait_until_async

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

SAFE: Final = Durability(wait_replicas=1, wait_ms=500)
SESSIONS: Final = [f"ses_{number}" for number in range(8)]
WAITED_IN: Final = "ses_waiting"


def key_of(ledger: Ledger, session: str) -> str:
    return as_redis(ledger.store).keys.stream(StreamKey("session", session))


@asynccontextmanager
async def asking(ledger: Ledger, sessions: Sequence[str] = SESSIONS) -> AsyncIterator[list[Asker]]:
    """Askers on all nodes by default; each receives an allow before the block begins, and after it."""
    askers = [Asker(ledger, session) for session in sessions]
    tasks = [asyncio.create_task(one.work()) for one in askers]

    async def all_go_on() -> None:
        before = [len(one.allowed) for one in askers]
        await wait_until_async(
            lambda: all(len(one.allowed) > count + 3 for one, count in zip(askers, before, strict=True)),
            "every asker to be allowed something",
            FAILOVER_S,
        )

    await all_go_on()
    yield askers
    await all_go_on()
    for one in askers:
        one.stop()
    await asyncio.gather(*tasks)


@asynccontextmanager
async def waiting(asker: Ledger, approver: Ledger, session: str) -> AsyncIterator[None]:
    """An agent that waits for a person; after the block the person answers, and the agent receives the answer."""
    handle = await asker.session(session, rules=ASK)
    pending = await handle.submit("bash", ["rm"], request_id="waited-for")
    waiter = asyncio.create_task(handle.wait(pending.request_id))
    yield
    await (await approver.attach(session)).reply("waited-for", "once", actor="ann")
    async with asyncio.timeout(FAILOVER_S):
        assert (await waiter).outcome == "allowed"


async def promoted(cluster: Cluster, node: Node) -> None:
    def is_primary() -> bool:
        return node.answers() and node.info()["role"] == "master"

    await wait_until_async(lambda: asyncio.to_thread(is_primary), f"{node.address} to be promoted", FAILOVER_S)


async def test_a_killed_master_costs_no_acknowledged_allow_and_nothing_is_decided_twice(
    mortal: Cluster, open_ledger: OpenLedger
) -> None:
    ledger, other = await open_ledger(mortal.url, SAFE), await open_ledger(mortal.url, SAFE)
    victim = mortal.primary_of(key_of(ledger, WAITED_IN))
    heir = mortal.replica_of(victim)
    async with waiting(ledger, other, WAITED_IN), asking(ledger) as askers:
        victim.kill9()
        await promoted(mortal, heir)
        # The promoted node has no replica: until one returns, every allow there is in doubt.
        await asyncio.to_thread(mortal.mend)
    await check_log(other, askers)
    assert await replies_in(other, WAITED_IN) == ["waited-for"]


async def test_a_planned_failover_goes_unnoticed(mortal: Cluster, open_ledger: OpenLedger) -> None:
    ledger, other = await open_ledger(mortal.url), await open_ledger(mortal.url)
    heir = mortal.replica_of(mortal.primary_of(key_of(ledger, WAITED_IN)))
    async with waiting(ledger, other, WAITED_IN), asking(ledger) as askers:
        await asyncio.to_thread(mortal.hand_over_to, heir)
    assert [one.failures for one in askers] == [[]] * len(askers)
    await check_log(other, askers)


async def test_a_partition_that_moves_to_another_node_is_asked_in_and_heard_from_all_the_time(
    mortal: Cluster, open_ledger: OpenLedger
) -> None:
    ledger, other = await open_ledger(mortal.url), await open_ledger(mortal.url)
    key = key_of(ledger, SESSIONS[0])
    source = mortal.primary_of(key)
    target = next(node for node in mortal.primaries() if node is not source)
    sessions = [*beside(ledger, SESSIONS[0], 3), *SESSIONS[1:]]
    async with waiting(ledger, other, SESSIONS[0]), asking(ledger, sessions) as askers:
        await asyncio.to_thread(migrate, mortal, key, source, target)
    assert [one.failures for one in askers] == [[]] * len(askers)
    await check_log(other, askers)
    assert mortal.primary_of(key) is target


def beside(ledger: Ledger, session: str, count: int) -> list[str]:
    """Return other sessions of the same partition."""
    keys = as_redis(ledger.store).keys
    partition = StreamKey("session", session).partition(keys.count)
    names = (f"beside-{number}" for number in range(1000))
    return [name for name in names if StreamKey("session", name).partition(keys.count) == partition][:count]


def migrate(cluster: Cluster, key: str, source: Node, target: Node) -> None:
    """Move the slot of a key, key by key, as cluster tools do."""
    slot = int(source.run("CLUSTER", "KEYSLOT", key))
    target.run("CLUSTER", "SETSLOT", slot, "IMPORTING", cluster.id_of(source))
    source.run("CLUSTER", "SETSLOT", slot, "MIGRATING", cluster.id_of(target))
    while names := source.run("CLUSTER", "GETKEYSINSLOT", slot, 1):
        source.run("MIGRATE", "127.0.0.1", target.port, names[0], 0, 5000)
    for node in (target, source, *cluster.primaries()):
        node.run("CLUSTER", "SETSLOT", slot, "NODE", cluster.id_of(target))
    wait_until(lambda: cluster.primary_of(key) is target, "the nodes to know of the move")


def cut_off(primary: Node, replica: Node) -> None:
    """Disconnect the replica from all writes from now on."""
    replica.pause()
    primary.run("CLIENT", "KILL", "TYPE", "replica")


async def test_what_a_failover_lost_is_noticed_and_recorded(mortal: Cluster, open_ledger: OpenLedger) -> None:
    ledger, other = await open_ledger(mortal.url), await open_ledger(mortal.url)
    session = await ledger.session(SESSIONS[0], rules=ALLOW)
    await session.ask("bash", ["make"], request_id="replicated")
    primary = mortal.primary_of(key_of(ledger, SESSIONS[0]))
    replica = mortal.replica_of(primary)
    await wait_until_async(lambda: asyncio.to_thread(in_step, primary, replica), "the replica to be in step")
    cut_off(primary, replica)
    for number in range(5):
        await session.ask("bash", ["make"], request_id=f"lost-{number}")
    primary.kill9()
    replica.go_on()
    await promoted(mortal, replica)
    await session.ask("bash", ["make"], request_id="after")
    key = StreamKey("session", SESSIONS[0])
    events = [one async for one in read_events(other.store, key)]
    assert [getattr(one.event, "request_id", None) for one in events][-3:] == ["replicated", None, "after"]
    assert isinstance(events[-2].event, LogRegressed)


async def test_what_replicas_do_not_have_is_in_doubt_and_never_an_allow(
    mortal: Cluster, open_ledger: OpenLedger
) -> None:
    ledger, other = await open_ledger(mortal.url, SAFE), await open_ledger(mortal.url)
    session = await ledger.session(SESSIONS[0], rules=ALLOW)
    await session.ask("bash", ["make"], request_id="replicated")
    primary = mortal.primary_of(key_of(ledger, SESSIONS[0]))
    replica = mortal.replica_of(primary)
    cut_off(primary, replica)
    with pytest.raises(InDoubtError, match=r"0 of 1 replicas have it after 500 ms; ask again with the same request id"):
        await session.ask("bash", ["make"], request_id="in-doubt")
    primary.kill9()
    replica.go_on()
    await promoted(mortal, replica)
    await asyncio.to_thread(mortal.mend)
    await session.ask("bash", ["make"], request_id="in-doubt")
    asker = Asker(ledger, SESSIONS[0])
    asker.allowed = ["replicated", "in-doubt"]
    await check_log(other, [asker])


async def test_a_waiter_acts_on_a_reply_only_when_a_replica_has_it(mortal: Cluster, open_ledger: OpenLedger) -> None:
    ledger, hasty = await open_ledger(mortal.url, SAFE), await open_ledger(mortal.url)
    session = await ledger.session(SESSIONS[0], rules=ASK)
    await session.submit("bash", ["rm"], request_id="r")
    waiter = asyncio.create_task(session.wait("r"))
    primary = mortal.primary_of(key_of(ledger, SESSIONS[0]))
    replica = mortal.replica_of(primary)
    replica.pause()
    await (await hasty.attach(SESSIONS[0])).reply("r", "once", actor="ann")
    await wait_until_async(lambda: "r" in session.stream.state.settled, "the wake-up")
    await asyncio.wait([waiter], timeout=1.0)
    assert not waiter.done()
    replica.go_on()
    assert (await waiter).outcome == "allowed"


async def test_a_waiter_does_not_act_on_a_reply_that_a_failover_has_lost(
    mortal: Cluster, open_ledger: OpenLedger
) -> None:
    ledger, hasty = await open_ledger(mortal.url, SAFE), await open_ledger(mortal.url)
    session = await ledger.session(SESSIONS[0], rules=ASK)
    await session.submit("bash", ["rm"], request_id="r")
    primary = mortal.primary_of(key_of(ledger, SESSIONS[0]))
    replica = mortal.replica_of(primary)
    await wait_until_async(lambda: asyncio.to_thread(in_step, primary, replica), "the replica to be in step")
    waiter = asyncio.create_task(session.wait("r"))
    await wait_until_async(lambda: session.stream.observed, "the waiter")
    cut_off(primary, replica)
    await (await hasty.attach(SESSIONS[0])).reply("r", "once", actor="ann")
    await wait_until_async(lambda: "r" in session.stream.state.settled, "the wake-up")
    primary.kill9()
    replica.go_on()
    await promoted(mortal, replica)
    await wait_until_async(lambda: "r" in session.stream.state.pending, "the request to be pending again", FAILOVER_S)
    assert not waiter.done()
    await asyncio.to_thread(mortal.mend)
    await (await hasty.attach(SESSIONS[0])).reply("r", "reject", actor="bob")
    assert (await waiter).outcome == "rejected"
