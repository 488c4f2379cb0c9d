"""Reading streams back, the same on every store."""

from __future__ import annotations

from ledger.core.limits import PAGE_COUNT
from ledger.stores.port import START, Entry, Opening, Position, StreamInfo, StreamKey
from ledger.stores.store import Store, streams_of
from ledger.testing import TestClock
from tests.support.backends import PROJECT, SESSION, Backend, entries, written


async def test_a_stream_that_is_not_there_reads_as_nothing(store: Store, clock: TestClock) -> None:
    assert await store.open(SESSION) == Opening(None, (), clock.now_ms())
    assert await store.read(SESSION, START, 10) == ()
    assert await store.info(SESSION) is None
    assert [key async for key in streams_of(store)] == []


async def test_opening_a_stream_gives_entries_facts_and_time(store: Store, clock: TestClock) -> None:
    head = await written(store, b"a", b"b")
    clock.advance(7)
    info = StreamInfo(length=2, entries_added=2, last=head, max_deleted=START)
    assert await store.open(SESSION) == Opening(info, entries(head.ms, 1, (b"a", b"b")), clock.now_ms())


async def test_reading_begins_after_a_position_and_ends_after_so_many(store: Store, clock: TestClock) -> None:
    first = await written(store, b"a")
    clock.advance(1)
    await written(store, b"b", b"c", b"d", after=first)
    assert await store.read(SESSION, first, 2) == entries(clock.now_ms(), 2, (b"b", b"c"))
    assert await store.read(SESSION, START, 1) == (Entry(first.ms, 1, b"a"),)
    assert await store.read(SESSION, Position(clock.now_ms(), 4), 2) == ()


async def test_a_long_stream_opens_with_its_first_page(store: Store) -> None:
    head = START
    for _ in range(3):
        head = await written(store, *[b"x"] * 400, after=head)
    opening = await store.open(SESSION)
    assert opening.info is not None
    assert opening.info.last == head
    assert len(opening.entries) == PAGE_COUNT
    rest = await store.read(SESSION, opening.entries[-1].position, PAGE_COUNT)
    assert [entry.version for entry in rest] == list(range(PAGE_COUNT + 1, 1201))


async def test_many_streams_are_read_at_once_in_the_order_asked(store: Store, clock: TestClock) -> None:
    other = StreamKey("session", "ses_2")
    first = await written(store, b"a")
    await written(store, b"b", after=first)
    await written(store, b"p", key=PROJECT)
    now_ms = clock.now_ms()
    wanted = [(PROJECT, START), (other, START), (SESSION, first)]
    assert [await store.read(key, after, 10) for key, after in wanted] == [
        (Entry(now_ms, 1, b"p"),),
        (),
        (Entry(now_ms, 2, b"b"),),
    ]


async def test_every_stream_is_listed_once_and_hints_are_not_streams(backend: Backend) -> None:
    store = await backend.open()
    keys = {StreamKey("session", f"ses_{number}") for number in range(40)} | {PROJECT}
    for key in keys:
        await written(store, b"x", key=key)
    listed = [key async for key in streams_of(await backend.open())]
    assert sorted(listed) == sorted(keys)


async def test_ids_with_signs_in_them_are_told_apart(store: Store) -> None:
    keys = [StreamKey("session", name) for name in ("a:b", "a}:s:b", "{a}", "s:é", "*", "a%3Ab")]
    for key in keys:
        await written(store, key.id.encode(), key=key)
    assert sorted([key async for key in streams_of(store)]) == sorted(keys)
    for key in keys:
        assert [entry.payload for entry in await store.read(key, START, 10)] == [key.id.encode()]


async def test_a_stream_knows_its_partition_and_all_stores_agree_on_it(backend: Backend) -> None:
    one, other = await backend.open(), await backend.open()
    partitions = {StreamKey("session", f"ses_{number}").partition(one.partition_count) for number in range(200)}
    assert partitions == set(range(one.partition_count))
    assert SESSION.partition(one.partition_count) == SESSION.partition(other.partition_count)
