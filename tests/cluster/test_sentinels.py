"""A primary found by sentinels: when it is killed or demoted, its ledger continues at the next one."""

from __future__ import annotations

import asyncio

import pytest

from ledger import StoreError
from ledger.stores.redis import store as startup
from ledger.stores.redis.addresses import OneServer
from ledger.stores.redis.link import ServerConnection, ServerTarget
from ledger.stores.redis.redis_py import PrimaryLink
from ledger.stores.redis.store import RedisStore
from tests.cluster.conftest import OpenLedger
from tests.support.askers import ASK, replies_in
from tests.support.backends import log_of, written
from tests.support.clusters import FAILOVER_S, HOST, Node, Sentinels, in_step
from tests.support.waiting import wait_until_async

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


@pytest.fixture
def sentinels(shared_sentinels: Sentinels) -> Sentinels:
    shared_sentinels.mend()
    return shared_sentinels


async def test_an_asker_waits_through_a_failover_and_is_told_the_answer(
    sentinels: Sentinels, open_ledger: OpenLedger
) -> None:
    ledger, other = await open_ledger(sentinels.url), await open_ledger(sentinels.url)
    session = await ledger.session("ses_1", rules=ASK)
    await session.submit("bash", ["rm"], request_id="r")
    waiter = asyncio.create_task(session.wait("r"))
    before = sentinels.primary()
    await wait_until_async(lambda: session.stream.observed, "the waiter")
    await asyncio.to_thread(sentinels.wait_until_in_step)
    before.kill9()
    await wait_until_async(
        lambda: asyncio.to_thread(lambda: sentinels.primary() is not before), "the failover", FAILOVER_S
    )
    await (await other.attach("ses_1")).reply("r", "once", actor="ann")
    async with asyncio.timeout(FAILOVER_S):
        assert (await waiter).outcome == "allowed"
    assert await replies_in(other, "ses_1") == ["r"]


async def test_a_failover_that_the_sentinels_gave_up_is_asked_for_again(sentinels: Sentinels) -> None:
    before = sentinels.primary()
    (replica,) = (node for node in sentinels.servers if node is not before)
    replica.pause()
    failing_over = asyncio.create_task(asyncio.to_thread(sentinels.fail_over))
    await wait_until_async(
        lambda: sentinels.holds_for_down(replica) and not sentinels.is_failing_over(),
        "the sentinel to give up, or to refuse",
    )
    assert sentinels.primary() is before
    replica.go_on()
    await failing_over
    assert sentinels.primary() is replica


async def test_a_service_that_sentinels_do_not_know_is_named(
    sentinels: Sentinels, open_ledger: OpenLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    # During an election they give the same answer.
    monkeypatch.setattr(startup, "GIVE_UP_SECONDS", 0.1)
    with pytest.raises(StoreError, match="No master found for 'other'"):
        await open_ledger(sentinels.url.replace("/ledger", "/other"))


async def test_a_primary_that_became_a_replica_is_left_without_a_word_to_the_writer(pair: tuple[Node, Node]) -> None:
    first, second = pair
    primary = first

    def connect() -> ServerConnection:
        return ServerConnection(ServerTarget((HOST, primary.port)))

    store = RedisStore(OneServer(connect, link=PrimaryLink))
    await store.start()
    head = await written(store, b"a")
    await wait_until_async(lambda: asyncio.to_thread(in_step, first, second), "the replica to be in step")
    second.run("REPLICAOF", "NO", "ONE")
    first.run("REPLICAOF", HOST, second.port)
    primary = second
    await written(store, b"b", after=head)
    assert [entry.payload for entry in await log_of(store)] == [b"a", b"b"]
    await store.close()
