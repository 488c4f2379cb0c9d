"""A stream is rewritten without the content of some entries in one step, on every store, while others use it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from ledger.core.limits import CONFLICT_TAIL_COUNT
from ledger.stores.port import START, Append, Appended, AppendResult, Behind, Conflict, Entry, Position, WakeUp
from ledger.stores.store import Store
from tests.support.backends import PARTITION_COUNT, SESSION, Backend, append_of, log_of, written
from tests.support.store_calls import rewritten

ALL = range(PARTITION_COUNT)
EVENT = (b"redacted", b"why")


async def four(store: Store) -> Position:
    return await written(store, b"one", (b"two", b"secret 2"), (b"three", b"kept"), (b"four", b"secret 4"))


async def finished(store: Store, versions: Sequence[int], after: Position) -> Position:
    (answer,) = await rewritten(store, versions, append_of(EVENT, after=after))
    assert isinstance(answer, Appended), answer
    return Position(answer.ms, after.version + 1)


async def test_only_the_content_of_the_named_versions_is_gone(store: Store) -> None:
    head = await four(store)
    end = await finished(store, [2, 4], head)
    assert await log_of(store) == (
        Entry(head.ms, 1, b"one"),
        Entry(head.ms, 2, b"two"),
        Entry(head.ms, 3, b"three", b"kept"),
        Entry(head.ms, 4, b"four"),
        Entry(end.ms, 5, b"redacted", b"why"),
    )


async def test_the_metadata_of_a_rewritten_stream_is_that_of_one_that_only_grew(store: Store) -> None:
    end = await finished(store, [2], await four(store))
    info = await store.info(SESSION)
    assert info is not None
    assert (info.length, info.entries_added, info.last, info.max_deleted) == (5, 5, end, START)
    assert (await written(store, b"six", after=end)).version == 6


async def test_who_was_not_the_last_writer_changes_nothing(store: Store) -> None:
    head = await four(store)
    other = await written(store, b"five", after=head)
    before = await log_of(store)

    async def unchanged() -> Append:
        assert await log_of(store) == before
        return append_of(EVENT, after=other)

    answer, done = await rewritten(store, [2], append_of(EVENT, after=head), unchanged)
    assert isinstance(answer, Conflict)
    assert (answer.entries, answer.head) == (before[4:], other)
    assert isinstance(done, Appended)
    assert [one.payload for one in await log_of(store)] == [b"one", b"two", b"three", b"four", b"five", b"redacted"]
    assert (await log_of(store))[1].content is None


async def test_another_history_is_not_rewritten(store: Store) -> None:
    head = await four(store)
    (answer,) = await rewritten(store, [2], append_of(EVENT, after=Position(head.ms + 1, 4)))
    assert isinstance(answer, Behind)
    assert (await log_of(store))[1].content == b"secret 2"


async def test_a_rewrite_is_told_like_an_append(backend: Backend) -> None:
    store, other = await backend.open(), await backend.open()
    head = await four(store)
    told: asyncio.Queue[WakeUp] = asyncio.Queue()

    class Ear:
        def woken(self, wake_up: WakeUp) -> None:
            told.put_nowait(wake_up)

        def gap(self, partition: int) -> None: ...

    await other.subscribe(SESSION.partition(other.partition_count), Ear())
    end = await finished(store, [2], head)
    wake_up = await asyncio.wait_for(told.get(), 60)
    assert wake_up == WakeUp(SESSION, end, (Entry(end.ms, 5, *EVENT),))
    assert (SESSION, 5) in [(line.key, line.version) for line in (await store.read_feed(ALL, "views", "one", 10)).items]


@pytest.mark.parametrize("behind", [0, CONFLICT_TAIL_COUNT - 1, CONFLICT_TAIL_COUNT + 40])
async def test_a_long_stream_is_copied_in_slices_while_others_write_on(store: Store, behind: int) -> None:
    """Entries that arrive between slices are copied with the last step, or in further slices if they are many."""
    head = START
    for _ in range(3):
        head = await written(store, *[(b"d", b"secret")] * 300, after=head)

    async def after_others() -> Append:
        more = [(b"e", b"kept")] * behind
        return append_of(EVENT, after=await written(store, *more, after=head) if more else head)

    early = append_of(EVENT, after=Position(head.ms, 899))
    conflict, done = await rewritten(store, [1, 250, 251, 899, 900], early, after_others)
    assert isinstance(conflict, Conflict)
    assert isinstance(done, Appended)
    log = await log_of(store)
    assert [one.version for one in log] == list(range(1, 902 + behind))
    assert [one.version for one in log if one.content is None] == [1, 250, 251, 899, 900]
    info = await store.info(SESSION)
    assert info is not None
    assert info.length == info.entries_added == 901 + behind


async def test_of_many_rewrites_at_once_each_counts_in_turn(backend: Backend) -> None:
    stores = [await backend.open() for _ in range(3)]
    head = await written(stores[0], *[(b"d", b"secret")] * 6)

    async def one(store: Store, version: int) -> None:
        async def following(answer: AppendResult | None) -> Append | None:
            if isinstance(answer, Appended):
                return None
            return append_of(EVENT, after=answer.head if isinstance(answer, Conflict) else head)

        await store.rewrite(SESSION, [version], following)

    await asyncio.gather(*(one(stores[version % 3], version) for version in range(1, 6)))
    log = await log_of(stores[0])
    assert [one.version for one in log] == list(range(1, 12))
    assert [one.version for one in log if one.content is None] == [1, 2, 3, 4, 5]


async def test_every_server_says_what_became_of_its_files(store: Store) -> None:
    told = await store.rewrite_files()
    assert [one for one in told if not one.is_clean] == []
