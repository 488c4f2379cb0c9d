"""Views and their checkpoints, changed in one step; the same on every store."""

from __future__ import annotations

import asyncio

from msgspec.structs import replace

from ledger.stores.port import START, Position, StreamKey, ViewAdvance, ViewWrite
from ledger.stores.store import Store, streams_of
from tests.support.backends import SESSION, Backend, at, view_names, written
from tests.support.store_calls import checkpoint, drop_all_views, project, view, view_field, view_fields


async def test_nothing_was_projected_in_the_beginning(store: Store) -> None:
    partition = SESSION.partition(store.partition_count)
    assert await checkpoint(store, SESSION) == START
    assert dict(await view(store, "pending", partition)) == {}
    assert await view_field(store, "pending", partition, "per_1") is None


async def test_views_and_checkpoint_change_together(backend: Backend) -> None:
    store, reader = await backend.open(), await backend.open()
    partition = SESSION.partition(store.partition_count)
    writes = [ViewWrite("pending", "per_1", b"\x00one"), ViewWrite("sessions", "ses_1", b"open")]
    assert await project(store, SESSION, START, at(3), writes)
    assert await checkpoint(reader, SESSION) == at(3)
    assert dict(await view(reader, "pending", partition)) == {"per_1": b"\x00one"}
    assert await view_field(reader, "sessions", partition, "ses_1") == b"open"
    assert await view_field(reader, "sessions", partition, "ses_2") is None


async def test_a_projector_that_is_late_changes_nothing(store: Store) -> None:
    assert await project(store, SESSION, START, at(2), [ViewWrite("pending", "per_1", b"new")])
    assert not await project(store, SESSION, START, at(1), [ViewWrite("pending", "per_1", b"old")])
    assert not await project(store, SESSION, at(3), at(4), [ViewWrite("pending", "per_1", b"ahead")])
    assert await checkpoint(store, SESSION) == at(2)
    assert await view_field(store, "pending", SESSION.partition(store.partition_count), "per_1") == b"new"


async def test_of_two_projectors_at_once_one_counts(backend: Backend) -> None:
    stores = [await backend.open() for _ in range(4)]
    count = [ViewWrite("counts", "allowed", 1, "count")]
    done = await asyncio.gather(*(project(store, SESSION, START, at(1), count) for store in stores for _ in range(4)))
    assert done.count(True) == 1
    assert await view_field(stores[0], "counts", SESSION.partition(stores[0].partition_count), "allowed") == b"1"


async def test_fields_are_replaced_and_removed(store: Store) -> None:
    partition = SESSION.partition(store.partition_count)
    await project(store, SESSION, START, at(1), [ViewWrite("pending", "a", b"1"), ViewWrite("pending", "b", b"2")])
    await project(
        store,
        SESSION,
        at(1),
        at(2),
        [
            ViewWrite("pending", "a", None),
            ViewWrite("pending", "b", b""),
            ViewWrite("pending", "never_there", None),
        ],
    )
    assert dict(await view(store, "pending", partition)) == {"b": b""}


async def test_writes_of_one_step_apply_in_order(store: Store) -> None:
    writes = [ViewWrite("pending", "a", b"1"), ViewWrite("pending", "a", None), ViewWrite("pending", "a", b"2")]
    await project(store, SESSION, START, at(1), writes)
    assert await view_field(store, "pending", SESSION.partition(store.partition_count), "a") == b"2"


async def test_counts_are_added_up(store: Store) -> None:
    partition = SESSION.partition(store.partition_count)
    await project(
        store,
        SESSION,
        START,
        at(1),
        [ViewWrite("counts", "asked", 2, "count"), ViewWrite("counts", "open", 1, "count")],
    )
    await project(
        store,
        SESSION,
        at(1),
        at(2),
        [ViewWrite("counts", "asked", 3, "count"), ViewWrite("counts", "open", -1, "count")],
    )
    assert dict(await view(store, "counts", partition)) == {"asked": b"5", "open": b"0"}


async def test_a_sorted_view_holds_a_number_for_each_field(store: Store) -> None:
    partition = SESSION.partition(store.partition_count)
    ms = 1_800_000_000_000
    writes = [ViewWrite("recent", name, ms + number, "sorted") for name, number in (("b", 2), ("a", 1), ("c", 3))]
    await project(store, SESSION, START, at(1), writes)
    await project(
        store,
        SESSION,
        at(1),
        at(2),
        [ViewWrite("recent", "a", ms + 9, "sorted"), ViewWrite("recent", "c", None, "sorted")],
    )
    assert dict(await view(store, "recent", partition)) == {"a": b"1800000000009", "b": b"1800000000002"}
    assert await view_field(store, "recent", partition, "a") == b"1800000000009"
    assert await view_field(store, "recent", partition, "c") is None


async def test_a_step_from_another_entry_of_the_same_version_changes_nothing(store: Store) -> None:
    """The entry's time tells a history that was lost, and written anew, from the one that the views are of."""
    await project(store, SESSION, START, at(2), [ViewWrite("pending", "per_1", b"old")])
    other = Position(at(2).ms + 1, 2)
    assert not await project(store, SESSION, other, at(3), [ViewWrite("pending", "per_1", b"new")])
    assert (await checkpoint(store, SESSION), await checkpoint(store, StreamKey("session", "ses_2"))) == (at(2), START)


async def test_a_change_without_a_step_makes_no_checkpoint(store: Store) -> None:
    assert await project(store, SESSION, START, START, [ViewWrite("pending", "per_1", b"1")])
    assert {name for _, name in await view_names(store)} == {"pending"}


async def test_a_step_without_changes_moves_the_checkpoint(store: Store) -> None:
    assert await project(store, SESSION, START, at(5), [])
    assert await checkpoint(store, SESSION) == at(5)


async def test_dropping_the_views_of_a_partition_keeps_the_streams_and_the_other_partitions(store: Store) -> None:
    elsewhere = next(
        key
        for key in (StreamKey("session", f"ses_{number}") for number in range(100))
        if key.partition(store.partition_count) != SESSION.partition(store.partition_count)
    )
    await written(store, b"a")
    for key in (SESSION, elsewhere):
        await project(
            store, key, START, at(1), [ViewWrite("pending", "per_1", b"x"), ViewWrite("recent", "s", 1, "sorted")]
        )
    await drop_all_views(store, SESSION.partition(store.partition_count))
    assert await checkpoint(store, SESSION) == START
    assert dict(await view(store, "pending", SESSION.partition(store.partition_count))) == {}
    assert dict(await view(store, "recent", SESSION.partition(store.partition_count))) == {}
    assert await checkpoint(store, elsewhere) == at(1)
    assert dict(await view(store, "pending", elsewhere.partition(store.partition_count))) == {"per_1": b"x"}
    assert [key async for key in streams_of(store)] == [SESSION]
    assert await project(store, SESSION, START, at(1), [ViewWrite("pending", "per_1", b"again")])


async def test_a_latest_number_never_goes_back(store: Store) -> None:
    partition = SESSION.partition(store.partition_count)
    for version, number in enumerate((1_800_000_000_005, 1_800_000_000_009, 1_800_000_000_007)):
        before = at(version) if version else START
        await project(store, SESSION, before, at(version + 1), [ViewWrite("used", "grn_1", number, "latest")])
    assert await view_fields(store, "used", partition, ["grn_1", "grn_2"]) == [b"1800000000009", None]


async def test_streams_of_one_partition_advance_together_or_not_at_all(store: Store) -> None:
    partition = SESSION.partition(store.partition_count)
    names = (StreamKey("session", f"ses_{number}") for number in range(100_000))
    other = next(key for key in names if key != SESSION and key.partition(store.partition_count) == partition)
    both = [ViewAdvance(SESSION, START, at(3)), ViewAdvance(other, START, at(2))]
    writes = [ViewWrite("pending", "a", b"1"), ViewWrite("counts", "n", 5, "count")]
    assert await store.project(partition, both, writes)
    assert [await checkpoint(store, one) for one in (SESSION, other)] == [at(3), at(2)]
    assert not await store.project(
        partition, [ViewAdvance(SESSION, at(3), at(4)), ViewAdvance(other, at(1), at(4))], writes
    )
    assert [await checkpoint(store, one) for one in (SESSION, other)] == [at(3), at(2)]
    assert await view_field(store, "counts", partition, "n") == b"5"


async def test_a_checkpoint_is_compared_as_a_whole(store: Store) -> None:
    assert await project(store, SESSION, START, at(12), [])
    for expected in (at(1), Position(at(12).ms, 120), Position(at(12).ms, 1), START):
        assert not await project(store, SESSION, expected, at(13), [])
    assert await checkpoint(store, SESSION) == at(12)


async def test_a_step_of_many_thousand_changes_is_made_whole(store: Store) -> None:
    count = 5_000
    fields = [ViewWrite("pending", str(number), b"1") for number in range(count)]
    names = [ViewWrite("waiting", str(number), 0, "sorted") for number in range(count)]
    assert await project(store, SESSION, START, at(1), [*fields, *names])
    partition = SESSION.partition(store.partition_count)
    assert [len(await view(store, name, partition)) for name in ("pending", "waiting")] == [count, count]
    assert await project(store, SESSION, at(1), at(2), [replace(one, value=None) for one in (*fields, *names)])
    assert [len(await view(store, name, partition)) for name in ("pending", "waiting")] == [0, 0]
