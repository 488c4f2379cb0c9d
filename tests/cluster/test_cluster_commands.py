"""Commands and subscriptions on a cluster whose slots move, and URLs that name the wrong kind of server."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from ledger import Durability, Ledger, SetupError
from ledger.core.errors import ExpiredError
from ledger.core.timeouts import Timeouts
from ledger.stores.durability import advice, shortcomings
from ledger.stores.port import Due
from ledger.stores.redis.addresses import servers_of
from ledger.stores.redis.link import CLIENT_NAME, LinkError
from ledger.stores.redis.store import RedisStore
from ledger.stores.store import EstimatedClock, append_to
from ledger.stores.urls import open_store
from tests.support.askers import ALLOW, ASK
from tests.support.backends import SESSION, Backend, append_of, as_redis, log_of, written
from tests.support.clusters import HOST, Cluster, Node
from tests.support.servers import RealServer
from tests.support.tally import RecordingListener
from tests.support.waiting import wait_until_async

if TYPE_CHECKING:
    from tests.support.servers import StartServer

pytestmark = pytest.mark.cluster


@pytest.fixture
async def on_cluster(cluster: Cluster) -> AsyncIterator[RedisStore]:
    backend = Backend(cluster, None)
    yield as_redis(await backend.open())
    await backend.close()


def key_of(store: RedisStore) -> str:
    return store.keys.stream(SESSION)


def nodes_for(cluster: Cluster, key: str) -> tuple[Node, Node]:
    """Return the node that serves a key, and another one that could."""
    source = cluster.primary_of(key)
    return source, next(node for node in cluster.primaries() if node is not source)


@contextmanager
def half_moved(cluster: Cluster, key: str) -> Iterator[None]:
    """A slot whose keys all lie at another node, which does not serve the slot yet."""
    source, target = nodes_for(cluster, key)
    slot = int(source.run("CLUSTER", "KEYSLOT", key))
    target.run("CLUSTER", "SETSLOT", slot, "IMPORTING", cluster.id_of(source))
    source.run("CLUSTER", "SETSLOT", slot, "MIGRATING", cluster.id_of(target))
    while names := source.run("CLUSTER", "GETKEYSINSLOT", slot, 1):
        source.run("MIGRATE", HOST, target.port, names[0], 0, 5000)
    try:
        yield
    finally:
        for node in (target, *(one for one in cluster.primaries() if one is not target)):
            node.run("CLUSTER", "SETSLOT", slot, "NODE", cluster.id_of(target))


async def test_a_key_that_is_on_its_way_to_another_node_is_read_and_written_there(
    cluster: Cluster, on_cluster: RedisStore
) -> None:
    head = await written(on_cluster, b"a", due=Due(5))
    with half_moved(cluster, key_of(on_cluster)):
        assert [entry.payload for entry in await log_of(on_cluster)] == [b"a"]
        head = await written(on_cluster, b"b", after=head)
    await written(on_cluster, b"c", after=head)
    assert [entry.payload for entry in await log_of(on_cluster)] == [b"a", b"b", b"c"]


async def test_an_append_that_needs_a_key_which_nobody_has_waits_until_its_slot_has_moved(
    cluster: Cluster, on_cluster: RedisStore
) -> None:
    head = await written(on_cluster, b"a")
    with half_moved(cluster, key_of(on_cluster)):
        append = asyncio.create_task(append_to(on_cluster, append_of(b"b", after=head)))
        await asyncio.wait([append], timeout=0.3)
        assert not append.done()
    await append
    assert [entry.payload for entry in await log_of(on_cluster)] == [b"a", b"b"]


async def test_a_subscription_follows_its_partition_and_reports_the_gap(
    cluster: Cluster, on_cluster: RedisStore
) -> None:
    listener = RecordingListener()
    partition = SESSION.partition(on_cluster.partition_count)
    await on_cluster.subscribe(partition, listener)
    head = await written(on_cluster, b"a", due=Due(5))
    await wait_until_async(lambda: len(listener.wake_ups) == 1, "the first wake-up")
    with half_moved(cluster, key_of(on_cluster)):
        pass
    await wait_until_async(lambda: listener.gaps == [partition] * 2, "the subscription at the new node")
    await written(on_cluster, b"b", after=head)
    await wait_until_async(lambda: len(listener.wake_ups) == 2, "a wake-up from there")


async def test_a_killed_subscriber_of_any_node_subscribes_again(cluster: Cluster, on_cluster: RedisStore) -> None:
    listener = RecordingListener()
    for partition in range(on_cluster.partition_count):
        await on_cluster.subscribe(partition, listener)
    for node in cluster.primaries():
        node.run("CLIENT", "KILL", "TYPE", "pubsub")
    await wait_until_async(lambda: len(listener.gaps) >= 2 * on_cluster.partition_count, "all gaps")
    assert set(listener.gaps) == set(range(on_cluster.partition_count))


async def test_a_command_that_was_cut_off_by_the_end_opens_no_connection_again(cluster: Cluster) -> None:
    servers = servers_of(cluster.url)
    link = servers.commands(60)
    waiting = asyncio.create_task(link.run([("BLPOP", "{nobody}", 0)]))
    blocked = cluster.primary_of("{nobody}")
    await wait_until_async(lambda: b"cmd=blpop" in blocked.run("CLIENT", "LIST"), "the command at its node")
    await link.close()
    await servers.close()
    with pytest.raises(LinkError):
        await waiting
    await wait_until_async(
        lambda: all(CLIENT_NAME.encode() not in one.run("CLIENT", "LIST") for one in cluster.nodes), "all closed"
    )


async def test_each_node_is_given_a_script_it_has_forgotten(cluster: Cluster, on_cluster: RedisStore) -> None:
    head = await written(on_cluster, b"a")
    for node in cluster.primaries():
        node.run("SCRIPT", "FLUSH")
    await written(on_cluster, b"b", after=head)


async def test_a_url_that_names_the_wrong_kind_of_server_is_refused_with_the_right_one(
    cluster: Cluster, pair: tuple[Node, Node]
) -> None:
    elsewhere = next(node for node in cluster.primaries() if node is not cluster.primary_of("pl:config"))
    one = open_store(f"redis://{elsewhere.address}")
    with pytest.raises(SetupError, match=r"one node of a cluster; write redis\+cluster://"):
        await one.start()
    await one.close()
    many = open_store(f"redis+cluster://{pair[0].address}")
    with pytest.raises(SetupError, match="is not a cluster node; write redis://"):
        await many.start()
    await many.close()


async def test_a_disk_that_is_to_be_waited_for_must_be_written_to(server: RealServer) -> None:
    store = open_store(f"{server.url}?wait_aof=1")
    with pytest.raises(SetupError, match="wait_aof needs an append-only file"):
        await store.start()
    await store.close()


async def test_an_allow_that_waits_for_the_disk_is_given_when_the_disk_has_it(start_server: StartServer) -> None:
    server = start_server("durable", options={"appendonly": "yes", "appendfsync": "always"})
    async with Ledger.connect(f"{server.url}?wait_aof=1", partitions=8, entry_points=False) as ledger:
        session = await ledger.session("ses_1", rules=ALLOW)
        results = await asyncio.gather(*(session.ask("bash", ["make"], request_id=f"r{one}") for one in range(20)))
        assert [one.outcome for one in results] == ["allowed"] * 20
        assert b"cmdstat_waitaof" in await as_redis(ledger.store).command("INFO", "commandstats")


def test_what_a_server_cannot_give_or_may_lose_is_told_with_its_setting() -> None:
    aof, replicas = Durability(wait_aof=True), Durability(wait_replicas=2)
    assert shortcomings({"redis_version": "7.0.15", "aof_enabled": "1"}, aof) == [
        "wait_aof needs Redis 7.2 or newer, or a Valkey"
    ]
    facts = {"role": "master", "connected_slaves": "1", "config_min-replicas-to-write": "0"}
    assert [one.hint for one in advice(facts, replicas)] == ["start more replicas", "set min-replicas-to-write 1"]
    facts = {"role": "master", "connected_slaves": "1"}
    assert [one.hint for one in advice(facts, Durability())] == ["put wait_replicas=1 into the URL"]
    assert [one.hint for one in advice({"role": "slave"}, replicas)] == ["give the URL of the primary"]


class FastClock(EstimatedClock):
    """A clock three seconds ahead of the stream's node, as another node's clock may be."""

    def now_ms(self) -> int:
        return super().now_ms() + 3000


async def test_only_the_clock_of_a_streams_own_node_ends_its_requests(
    server: RealServer, caplog: pytest.LogCaptureFixture
) -> None:
    async with Ledger.connect(server.url, partitions=8, entry_points=False) as ledger:
        store = as_redis(ledger.store)
        ahead = FastClock()
        ahead.observe(await store.now_ms())
        store.clock = ahead
        caplog.set_level(logging.WARNING)
        session = await ledger.session("ses_1", rules=ASK, timeouts=Timeouts(unattended=1))
        with pytest.raises(ExpiredError):
            await session.ask("bash", ["rm"], request_id="r")
        state = await session.state()
        asked, ended = state.settled["r"].request.asked_ms, state.last_ms
        assert ended >= asked + 1000
    assert [record.message for record in caplog.records if "settling" in record.message] == []
