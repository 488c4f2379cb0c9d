"""Lost answers: an append counts once, and an unknown outcome is reported as in doubt."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from ledger.core.errors import InDoubtError, StoreError
from ledger.log.stream import Stream
from ledger.stores.port import START, Appended, Conflict, StreamKey, ViewWrite
from ledger.stores.redis import commands
from ledger.stores.redis.store import RedisStore
from ledger.stores.urls import open_store
from tests.support.backends import (
    PROJECT,
    SESSION,
    Backend,
    Operator,
    answer_to,
    append_of,
    as_redis,
    at,
    log_of,
    written,
)
from tests.support.proxy import Fault, Proxy
from tests.support.servers import RealServer
from tests.support.store_calls import checkpoint, project, view_field
from tests.support.tally import Tally, add, tally
from tests.support.waiting import wait_until_async

LOSSES = (Fault.NOT_FORWARDED, Fault.ANSWER_LOST)


@pytest.fixture
async def proxy(server: RealServer) -> AsyncIterator[Proxy]:
    proxy = Proxy(server.socket)
    await proxy.start()
    yield proxy
    await proxy.close()


@pytest.fixture
async def impatient(proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[RedisStore]:
    """A store behind the proxy with a short time-out."""
    monkeypatch.setattr(commands, "GIVE_UP_SECONDS", 1.2)
    monkeypatch.setattr(commands, "ANSWER_SECONDS", 0.4)
    store = as_redis(open_store(proxy.url))
    await store.start()
    yield store
    await store.close()


@pytest.fixture
async def far_store(proxy: Proxy) -> AsyncIterator[RedisStore]:
    """A store behind the proxy."""
    store = as_redis(open_store(proxy.url))
    await store.start()
    yield store
    await store.close()


@pytest.fixture
async def stream(far_store: RedisStore) -> Stream[Tally]:
    """Folded, so that the next command is an append."""
    stream = tally(far_store)
    await stream.submit(add("first"))
    return stream


@pytest.mark.parametrize("fault", LOSSES)
@pytest.mark.parametrize("times", [1, 3])
async def test_an_append_whose_answer_was_lost_is_found_again_and_counts_once(
    proxy: Proxy, stream: Stream[Tally], far_store: RedisStore, fault: Fault, times: int
) -> None:
    proxy.lose("EVALSHA", fault, times=times)
    done = await stream.submit(add("a", "b"))
    assert [one.version for one in done.events] == [2, 3]
    assert done.state == Tally(("first", "a", "b"), version=3)
    assert len(await log_of(far_store)) == 3
    assert await tally(far_store).refresh() == done.state


async def test_a_store_tells_a_writer_of_its_own_entry_as_a_conflict(proxy: Proxy, far_store: RedisStore) -> None:
    await written(far_store, b"elsewhere", key=PROJECT)
    proxy.lose("EVALSHA", Fault.ANSWER_LOST)
    answer = await answer_to(far_store, append_of(b"a"))
    assert isinstance(answer, Conflict)
    assert [entry.payload for entry in answer.entries] == [b"a"]


async def test_a_lost_answer_of_the_stream_read_along_does_not_write_twice(
    proxy: Proxy, stream: Stream[Tally], far_store: RedisStore
) -> None:
    companion = tally(far_store, PROJECT)
    await companion.submit(add("grant"))
    proxy.lose("XRANGE", Fault.ANSWER_LOST)
    done = await stream.submit(add("a"), companion)
    assert [one.version for one in done.events] == [2]
    assert len(await log_of(far_store)) == 2


async def test_many_streams_whose_answers_are_lost_at_once_are_each_written_once(
    proxy: Proxy, far_store: RedisStore
) -> None:
    streams = [tally(far_store, StreamKey("session", f"ses_{number}")) for number in range(30)]
    await asyncio.gather(*(stream.refresh() for stream in streams))
    proxy.lose("EVALSHA", Fault.ANSWER_LOST, after=7, times=3)
    dones = await asyncio.gather(*(stream.submit(add("a")) for stream in streams))
    assert [[one.version for one in done.events] for done in dones] == [[1]] * 30
    for stream in streams:
        assert len(await log_of(far_store, stream.key)) == 1


async def test_a_connection_that_is_cut_while_nothing_is_asked_harms_nothing(
    proxy: Proxy, stream: Stream[Tally]
) -> None:
    await proxy.cut()
    assert (await stream.submit(add("a"))).state.version == 2


async def test_a_server_that_is_away_for_a_moment_is_waited_for(proxy: Proxy, stream: Stream[Tally]) -> None:
    await proxy.stop()
    submitted = asyncio.create_task(stream.submit(add("a")))
    for _ in range(3):
        await asyncio.wait([submitted], timeout=0.02)
    assert not submitted.done()
    await proxy.start()
    assert (await submitted).state.version == 2


@pytest.mark.slow
@pytest.mark.parametrize("fault", [Fault.ANSWER_LOST, Fault.SILENCE])
async def test_an_append_without_any_answer_is_in_doubt_and_found_by_the_next_fold(
    proxy: Proxy, impatient: RedisStore, fault: Fault
) -> None:
    stream = tally(impatient)
    await stream.submit(add("first"))
    proxy.lose("EVALSHA", fault, times=None)
    with pytest.raises(InDoubtError, match="may or may not have counted; ask again with the same request id") as caught:
        await stream.submit(add("a"))
    assert caught.value.code == "IN_DOUBT"
    proxy.heal()
    assert (await stream.submit(add("b"))).state == Tally(("first", "a", "b"), version=3)
    assert len(await log_of(impatient)) == 3


@pytest.mark.slow
async def test_all_commands_of_an_append_in_doubt_are_in_doubt(proxy: Proxy, impatient: RedisStore) -> None:
    stream = tally(impatient)
    await stream.refresh()
    proxy.lose("EVALSHA", Fault.SILENCE, times=None)
    outcomes = await asyncio.gather(*(stream.submit(add(f"{one}")) for one in range(3)), return_exceptions=True)
    assert [type(one) for one in outcomes] == [InDoubtError] * 3


@pytest.mark.slow
async def test_an_append_that_was_never_sent_is_not_in_doubt(proxy: Proxy, impatient: RedisStore) -> None:
    stream = tally(impatient)
    await stream.submit(add("first"))
    await proxy.stop()
    # What is written to a connection before its end was noticed may have been sent.
    await wait_until_async(lambda: getattr(impatient._link, "_connection", 1) is None, "the end of the connection")
    with pytest.raises(StoreError, match=r"cannot be reached .* is it running, and is --url right") as caught:
        await stream.submit(add("a"))
    assert caught.value.code == "UNREACHABLE"
    await proxy.start()
    assert (await stream.submit(add("b"))).state == Tally(("first", "b"), version=2)


@pytest.mark.slow
async def test_an_append_that_may_have_been_sent_stays_in_doubt_though_the_server_then_vanished(
    proxy: Proxy, impatient: RedisStore
) -> None:
    stream = tally(impatient)
    await stream.submit(add("first"))
    proxy.lose("EVALSHA", Fault.SILENCE, times=None)
    submitted = asyncio.create_task(stream.submit(add("a")))
    while proxy.sent("EVALSHA") < 2:
        await asyncio.wait([submitted], timeout=0.01)
    await proxy.stop()
    with pytest.raises(InDoubtError):
        await submitted


@pytest.mark.slow
async def test_an_append_stays_in_doubt_though_the_server_then_refuses_the_connection(
    proxy: Proxy, impatient: RedisStore, admin: Operator
) -> None:
    stream = tally(impatient)
    await stream.submit(add("first"))
    proxy.lose("EVALSHA", Fault.ANSWER_LOST)
    await admin.run("CONFIG", "SET", "requirepass", "changed meanwhile")
    try:
        with pytest.raises(InDoubtError):
            await stream.submit(add("a"))
    finally:
        await admin.run("CONFIG", "SET", "requirepass", "")
    assert (await stream.submit(add("b"))).state.names == ("first", "a", "b")


@pytest.mark.parametrize("fault", LOSSES)
async def test_a_read_whose_answer_was_lost_is_read_again(proxy: Proxy, far_store: RedisStore, fault: Fault) -> None:
    head = await written(far_store, b"a")
    proxy.lose("XRANGE", fault, times=2)
    assert [entry.payload for entry in await far_store.read(SESSION, START, 10)] == [b"a"]
    proxy.lose("XINFO", fault)
    opening = await far_store.open(SESSION)
    assert opening.info is not None
    assert opening.info.last == head


@pytest.mark.slow
async def test_a_read_without_any_answer_is_unreachable_not_in_doubt(proxy: Proxy, impatient: RedisStore) -> None:
    await written(impatient, b"a")
    proxy.lose("XRANGE", Fault.SILENCE, times=None)
    with pytest.raises(StoreError) as caught:
        await impatient.read(SESSION, START, 10)
    assert caught.value.code == "UNREACHABLE"


async def test_a_projection_whose_answer_was_lost_counts_once(proxy: Proxy, far_store: RedisStore) -> None:
    await project(far_store, PROJECT, START, at(1), [])
    proxy.lose("EVALSHA", Fault.ANSWER_LOST)
    await project(far_store, SESSION, START, at(1), [ViewWrite("counts", "asked", 1, "count")])
    assert await checkpoint(far_store, SESSION) == at(1)
    assert await view_field(far_store, "counts", SESSION.partition(far_store.partition_count), "asked") == b"1"


async def test_a_script_that_the_server_forgot_is_loaded_again_though_that_answer_is_lost_too(
    proxy: Proxy, stream: Stream[Tally], far_store: RedisStore
) -> None:
    await far_store.command("SCRIPT", "FLUSH")
    proxy.lose("SCRIPT", Fault.ANSWER_LOST)
    assert (await stream.submit(add("a"))).state.version == 2
    assert len(await log_of(far_store)) == 2


async def test_a_cancelled_caller_does_not_disturb_the_answers_of_others(
    proxy: Proxy, far_store: RedisStore, server_backend: Backend
) -> None:
    keys = [StreamKey("session", f"ses_{number}") for number in range(10)]
    appends = [asyncio.create_task(answer_to(far_store, append_of(b"a", key=key))) for key in keys]
    await asyncio.wait(appends, timeout=0.0)
    for task in appends[::2]:
        task.cancel()
    outcomes = await asyncio.gather(*appends, return_exceptions=True)
    assert all(isinstance(one, Appended) for one in outcomes[1::2])
    assert [entry.payload for entry in await log_of(far_store, keys[1])] == [b"a"]
