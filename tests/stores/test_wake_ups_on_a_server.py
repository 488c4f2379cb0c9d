"""Lost pub/sub messages and killed servers: no acknowledged event is lost, and no waiter hangs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import pytest

from ledger.stores.port import START
from ledger.stores.redis.store import RedisStore
from ledger.stores.urls import open_store
from tests.support.backends import SESSION, Backend, Operator, as_redis, log_of, written
from tests.support.servers import RealServer
from tests.support.tally import RecordingListener, add, tally
from tests.support.waiting import wait_until_async

if TYPE_CHECKING:
    from tests.support.servers import StartServer


async def subscribers(admin: Operator, store: RedisStore) -> int:
    channel = store.keys.channel(SESSION.partition(store.partition_count))
    _, count = await admin.run("PUBSUB", "SHARDNUMSUB", channel)
    return int(count)


async def test_a_subscription_is_confirmed_by_a_gap_so_that_the_stream_is_read_once_more(
    server_store: RedisStore,
) -> None:
    listener = RecordingListener()
    await server_store.subscribe(SESSION.partition(server_store.partition_count), listener)
    assert listener.gaps == [SESSION.partition(server_store.partition_count)]


async def test_a_killed_subscriber_subscribes_again_and_reports_the_gap(
    server_store: RedisStore, admin: Operator
) -> None:
    listener = RecordingListener()
    own = SESSION.partition(server_store.partition_count)
    other = (own + 1) % server_store.partition_count
    await server_store.subscribe(own, listener)
    await server_store.subscribe(other, listener)
    await admin.run("CLIENT", "KILL", "TYPE", "pubsub")
    await wait_until_async(lambda: len(listener.gaps) == 4, "both gaps")
    assert sorted(listener.gaps) == sorted([own, other] * 2)
    await written(server_store, b"a")
    await wait_until_async(lambda: listener.wake_ups, "a wake-up")


async def test_nothing_is_missed_while_subscribers_are_killed_again_and_again(
    server_backend: Backend, admin: Operator
) -> None:
    writer, reader = as_redis(await server_backend.open()), as_redis(await server_backend.open())
    stream = tally(reader)
    await reader.subscribe(SESSION.partition(reader.partition_count), RecordingListener(stream))
    await stream.refresh()
    theirs = tally(writer)
    for number in range(10):
        await admin.run("CLIENT", "KILL", "TYPE", "pubsub")
        await theirs.submit(add(f"{number}"))
        await wait_until_async(lambda: stream.state == theirs.state, "the fold of the reader")


async def test_wake_ups_that_are_no_ledgers_are_passed_over(server_store: RedisStore, admin: Operator) -> None:
    listener = RecordingListener()
    await server_store.subscribe(SESSION.partition(server_store.partition_count), listener)
    channel = server_store.keys.channel(SESSION.partition(server_store.partition_count))
    for nonsense in (b"", b"hello", b"session:ses_1\nx-y", b"session:ses_1\n5", b"\xff\xfe\n1-1", b"\n\n\n"):
        await admin.run("SPUBLISH", channel, nonsense)
    await written(server_store, b"a")
    await wait_until_async(lambda: any(entries for _, entries in listener.wake_ups), "the real wake-up")
    assert [entries[0].payload for _, entries in listener.wake_ups if entries] == [b"a"]


async def test_closing_leaves_no_connection_and_no_subscription(server_store: RedisStore, admin: Operator) -> None:
    await server_store.subscribe(SESSION.partition(server_store.partition_count), RecordingListener())
    assert await subscribers(admin, server_store) == 1
    await server_store.close()

    async def nobody_is_left() -> bool:
        return b"name=permission-ledger " not in await admin.run("CLIENT", "LIST")

    await wait_until_async(nobody_is_left, "the end of all connections")


# --- a server that is killed ------------------------------------------------------------------------------------------


@pytest.fixture
def durable(start_server: StartServer) -> RealServer:
    """A server of its own that writes everything to its disk before it answers."""
    return start_server("durable", options={"appendonly": "yes", "appendfsync": "always"})


@pytest.fixture
async def durable_store(durable: RealServer) -> AsyncIterator[RedisStore]:
    store = as_redis(open_store(durable.url, partition_count=8))
    await store.start()
    yield store
    await store.close()


async def test_everything_acknowledged_survives_a_killed_server(durable: RealServer, durable_store: RedisStore) -> None:
    payloads = [b"%d" % number for number in range(200)]
    head = START
    for payload in payloads[:150]:
        head = await written(durable_store, payload, after=head)
    head = await written(durable_store, *payloads[150:], after=head)
    durable.kill9()
    durable.start()
    assert [entry.payload for entry in await log_of(durable_store)] == payloads
    info = await durable_store.info(SESSION)
    assert info is not None
    assert (info.length, info.entries_added, info.last) == (200, 200, head)


async def test_a_restarted_server_knows_no_script_once(durable: RealServer, durable_store: RedisStore) -> None:
    head = await written(durable_store, b"a")
    durable.kill9()
    durable.start()
    for _ in range(10):
        head = await written(durable_store, b"x", after=head)
    stats = await durable_store.command("INFO", "errorstats")
    assert b"errorstat_NOSCRIPT:count=1" in stats
    assert head.version == 11


async def test_who_writes_while_the_server_is_killed_loses_nothing_and_writes_nothing_twice(
    durable: RealServer, durable_store: RedisStore
) -> None:
    stream = tally(durable_store)
    acknowledged: list[str] = []

    async def write_on() -> None:
        for number in range(400):
            await stream.submit(add(f"{number}"))
            acknowledged.append(f"{number}")

    writing = asyncio.create_task(write_on())
    for count in (50, 150):
        await wait_until_async(lambda count=count: len(acknowledged) >= count, f"{count} appends")  # type: ignore[misc]
        durable.kill9()
        durable.start()
    await writing
    assert acknowledged == [f"{number}" for number in range(400)]
    assert (await tally(durable_store).refresh()).names == tuple(acknowledged)


async def test_subscribers_come_back_with_the_server(durable: RealServer, durable_store: RedisStore) -> None:
    stream, writer = tally(durable_store), tally(durable_store)
    await durable_store.subscribe(SESSION.partition(durable_store.partition_count), RecordingListener(stream))
    await stream.refresh()
    durable.kill9()
    durable.start()
    await writer.submit(add("a"))
    await wait_until_async(lambda: stream.state.names == ("a",), "the fold of the reader")
