"""Freezes on a cluster: no node allows anything after the acknowledgement, nor does a replica that lacks the flag."""

from __future__ import annotations

import asyncio
import signal
from typing import Final

import pytest

from ledger import Durability, InDoubtError, Ledger, Session
from ledger.stores.port import StreamKey
from tests.cluster.conftest import OpenLedger
from tests.cluster.test_cluster_faults import cut_off, promoted
from tests.support.askers import ALLOW
from tests.support.backends import as_redis
from tests.support.clusters import FAILOVER_S, Cluster, Node, in_step
from tests.support.processes import next_line, python
from tests.support.waiting import wait_until_async

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

FREEZES: Final = StreamKey("access", "freeze")

ASKER: Final = """
import asyncio, sys
from ledger import Ledger

async def main(url, session_id):
    async with Ledger.connect(url, partitions=8, entry_points=False) as ledger:
        session = await ledger.session(session_id, rules=[{"permission": "bash", "pattern": "*", "action": "allow"}])
        print((await session.submit("bash", ["make"], request_id="before")).outcome, flush=True)
        sys.stdin.readline()
        print((await session.submit("bash", ["make"], request_id="after")).outcome, flush=True)

asyncio.run(main(*sys.argv[1:]))
"""
"""Asks once, waits for a line, and asks again with everything it has cached."""


def session_off(ledger: Ledger, cluster: Cluster) -> tuple[str, Node]:
    """Return a session whose node is not that of the stream of freezes, and the node."""
    keys = as_redis(ledger.store).keys
    other = cluster.primary_of(keys.stream(FREEZES))
    for number in range(100):
        name = f"ses_{number}"
        node = cluster.primary_of(keys.stream(StreamKey("session", name)))
        if node is not other:
            return name, node
    raise AssertionError("all sessions are on one node")


async def replicated(primary: Node, replica: Node) -> None:
    await wait_until_async(lambda: asyncio.to_thread(in_step, primary, replica), "the replica to be in step")


async def opened(ledger: Ledger, session_id: str, request_id: str = "before") -> Session:
    """Open a session that was allowed something; the flag of its node is compared with the stream by then."""
    session = await ledger.session(session_id, rules=ALLOW)
    assert (await session.submit("bash", ["make"], request_id=request_id)).outcome == "allowed"
    return session


async def test_a_freeze_holds_on_every_node(mortal: Cluster, open_ledger: OpenLedger) -> None:
    ledger, other = await open_ledger(mortal.url), await open_ledger(mortal.url)
    sessions = [await opened(ledger, f"ses_{number}") for number in range(12)]
    await other.freezes.freeze(reason="a leak")
    asked = await asyncio.gather(*(one.submit("bash", ["make"], request_id="after") for one in sessions))
    assert {one.outcome for one in asked} == {None}
    await other.freezes.unfreeze()
    assert {(await one.result("after")).outcome for one in sessions} == {"allowed"}


async def test_a_replica_that_took_over_without_the_flag_allows_nothing(
    mortal: Cluster, open_ledger: OpenLedger
) -> None:
    ledger, other = await open_ledger(mortal.url), await open_ledger(mortal.url)
    session_id, victim = session_off(ledger, mortal)
    session = await opened(ledger, session_id)
    heir = mortal.replica_of(victim)
    await replicated(victim, heir)
    cut_off(victim, heir)
    await other.freezes.freeze(reason="a leak")
    victim.kill9()
    heir.go_on()
    await promoted(mortal, heir)
    flag = as_redis(ledger.store).keys.freeze(StreamKey("session", session_id).partition(ledger.store.partition_count))
    assert b"all" not in heir.run("HGETALL", flag), "the replica was to lack the freeze"
    # A process that has never heard of the freeze, and one that has.
    unaware = await (await open_ledger(mortal.url)).attach(session_id)
    async with asyncio.timeout(FAILOVER_S):
        assert (await unaware.submit("bash", ["make"], request_id="unaware")).outcome is None
        assert (await session.submit("bash", ["make"], request_id="after")).outcome is None
    assert b"all" in heir.run("HGETALL", flag)


async def test_a_process_that_was_suspended_across_freeze_and_failover_allows_nothing(
    mortal: Cluster, open_ledger: OpenLedger
) -> None:
    ledger = await open_ledger(mortal.url)
    session_id, victim = session_off(ledger, mortal)
    heir = mortal.replica_of(victim)
    await opened(ledger, session_id, "compared")
    with python(ASKER, mortal.url, session_id) as asker:
        assert next_line(asker) == "allowed"
        asker.send_signal(signal.SIGSTOP)
        await replicated(victim, heir)
        cut_off(victim, heir)
        await ledger.freezes.freeze(reason="a leak")
        victim.kill9()
        heir.go_on()
        await promoted(mortal, heir)
        asker.send_signal(signal.SIGCONT)
        assert asker.stdin
        asker.stdin.write("\n")
        asker.stdin.flush()
        assert await asyncio.to_thread(next_line, asker) == "None"


async def test_a_process_that_was_suspended_across_a_freeze_allows_nothing(
    mortal: Cluster, open_ledger: OpenLedger
) -> None:
    ledger = await open_ledger(mortal.url)
    await opened(ledger, "ses_1", "compared")
    with python(ASKER, mortal.url, "ses_1") as asker:
        assert next_line(asker) == "allowed"
        asker.send_signal(signal.SIGSTOP)
        await ledger.freezes.freeze(reason="a leak")
        asker.send_signal(signal.SIGCONT)
        assert asker.stdin
        asker.stdin.write("\n")
        asker.stdin.flush()
        assert await asyncio.to_thread(next_line, asker) == "None"


async def test_a_freeze_that_replicas_do_not_have_is_in_doubt_until_they_have_it(
    mortal: Cluster, open_ledger: OpenLedger
) -> None:
    safe = Durability(wait_replicas=1, wait_ms=300)
    ledger = await open_ledger(mortal.url, safe)
    _, victim = session_off(ledger, mortal)
    heir = mortal.replica_of(victim)
    cut_off(victim, heir)
    with pytest.raises(InDoubtError):
        await ledger.freezes.freeze(reason="a leak")
    heir.go_on()

    async def frozen() -> bool:
        try:
            await ledger.freezes.freeze(reason="a leak")
        except InDoubtError:
            return False
        return True

    await wait_until_async(frozen, "the freeze to be acknowledged", FAILOVER_S)
    session = await ledger.session("ses_1", rules=ALLOW)
    assert (await session.submit("bash", ["make"], request_id="r")).outcome is None


async def test_flags_are_read_from_the_heir_of_a_primary_that_is_killed_meanwhile(
    mortal: Cluster, open_ledger: OpenLedger
) -> None:
    ledger = await open_ledger(mortal.url)
    store = as_redis(ledger.store)
    primary = mortal.primary_of(store.keys.freeze(0))
    replica = mortal.replica_of(primary)
    await wait_until_async(lambda: asyncio.to_thread(in_step, primary, replica), "the replica to be in step")
    primary.kill9()
    # The other nodes still name the killed one as the primary of its slots.
    assert await store.flags() == [None] * store.partition_count
    assert replica.info()["role"] == "master"
