"""Wake-ups of appends, the same on every store."""

from __future__ import annotations

import pytest

from ledger.core.limits import INLINE_WAKE_UP_BYTES
from ledger.stores.port import START, Entry, Position, StreamKey
from ledger.stores.store import Store
from ledger.testing import TestClock
from tests.support.backends import PARTITION_COUNT, SESSION, Backend, answer_to, append_of, written
from tests.support.tally import RecordingListener
from tests.support.waiting import wait_until_async


async def listening(store: Store, *keys: StreamKey) -> RecordingListener:
    listener = RecordingListener()
    for key in keys or (SESSION,):
        await store.subscribe(key.partition(store.partition_count), listener)
    return listener


async def wake_ups_of(listener: RecordingListener, count: int) -> list[tuple[Position, tuple[Entry, ...]]]:
    await wait_until_async(lambda: len(listener.wake_ups) >= count, f"{count} wake-ups")
    return [(head, tuple(entries)) for head, entries in listener.wake_ups]


async def test_every_process_that_subscribed_is_woken_with_the_entries_themselves(backend: Backend) -> None:
    writer, reader = await backend.open(), await backend.open()
    own_listener, listener = await listening(writer), await listening(reader)
    head = await written(writer, b"a", (b"b", b"content"), b"c")
    told = (Entry(head.ms, 1, b"a"), Entry(head.ms, 2, b"b", b"content"), Entry(head.ms, 3, b"c"))
    expected = [(head, told)]
    assert await wake_ups_of(own_listener, 1) == expected
    assert await wake_ups_of(listener, 1) == expected


async def test_wake_ups_come_in_the_order_of_the_appends(backend: Backend) -> None:
    writer, listener = await backend.open(), await listening(await backend.open())
    head = START
    for number in range(50):
        head = await written(writer, b"%d" % number, after=head)
    assert [position.version for position, _ in await wake_ups_of(listener, 50)] == list(range(1, 51))


@pytest.mark.parametrize(("too_many", "inline"), [(0, True), (1, False)], ids=["just fits", "one byte too many"])
async def test_what_is_larger_than_the_limit_is_told_by_its_id(
    store: Store, clock: TestClock, *, too_many: int, inline: bool
) -> None:
    listener = await listening(store)
    room = INLINE_WAKE_UP_BYTES - len(f"\n{clock.now_ms()}-1\n\n")
    payload, content = b"d" * 400, b"x" * (room - 400 + too_many)
    head = await written(store, (payload, content))
    assert await wake_ups_of(listener, 1) == [(head, (Entry(head.ms, 1, payload, content),) if inline else ())]


async def test_events_that_fit_each_but_not_together_are_told_by_the_last_id(store: Store) -> None:
    listener = await listening(store)
    head = await written(store, *[b"x" * 500] * 3)
    head = await written(store, b"small", after=head)
    assert await wake_ups_of(listener, 2) == [(head._replace(version=3), ()), (head, (Entry(head.ms, 4, b"small"),))]


async def test_a_refused_append_wakes_nobody(store: Store) -> None:
    listener = await listening(store)
    head = await written(store, b"a")
    await answer_to(store, append_of(b"late"))
    await answer_to(store, append_of(b"ahead", after=Position(1, 5)))
    await answer_to(store, append_of(b"outside", after=head, window=(None, 1)))
    last = await written(store, b"b", after=head)
    assert [position for position, _ in await wake_ups_of(listener, 2)] == [head, last]


async def test_only_partitions_that_were_subscribed_to_are_heard(backend: Backend) -> None:
    store = await backend.open()
    keys = [StreamKey("session", f"ses_{number}") for number in range(100)]
    by_partition = {key.partition(store.partition_count): key for key in keys}
    assert len(by_partition) == PARTITION_COUNT
    first, *others = by_partition.values()
    listener = await listening(store, first)
    for key in (*others, first):
        await written(store, b"x", key=key)
    await wake_ups_of(listener, 1)
    assert len(listener.wake_ups) == 1


async def test_all_partitions_can_be_subscribed_to_one_after_the_other(backend: Backend) -> None:
    store = await backend.open()
    keys = list(
        {
            key.partition(store.partition_count): key for key in (StreamKey("session", f"s{one}") for one in range(100))
        }.values()
    )
    listener = await listening(store, *keys, *keys)
    for key in keys:
        await written(store, b"x", key=key)
    assert len(await wake_ups_of(listener, PARTITION_COUNT)) == PARTITION_COUNT


async def test_a_closed_store_is_woken_no_more(backend: Backend) -> None:
    closed, store = await backend.open(), await backend.open()
    closed_listener, listener = await listening(closed), await listening(store)
    await closed.close()
    await written(store, b"a")
    await wake_ups_of(listener, 1)
    assert closed_listener.wake_ups == []
