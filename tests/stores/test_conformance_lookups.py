"""Lookups in an index of the views, with the streams that are ahead of it; the same on every store."""

from __future__ import annotations

from ledger.core.limits import FEED_LENGTH_COUNT
from ledger.stores.admin import PROJECTORS, SKIPPED, FoundFields
from ledger.stores.port import START, FeedItem, Store, StreamKey, ViewWrite
from tests.support.backends import PARTITION_COUNT, PROJECT, SESSION, gaps, written

ALL = range(PARTITION_COUNT)


async def look_up(store: Store, prefix: str, count: int = 10) -> FoundFields:
    return await store.views.look_up("index", prefix, count)


async def list_fields(store: Store, key: StreamKey, *fields: str) -> None:
    at = await store.checkpoint(key)
    assert await store.project(key, at, at, [ViewWrite("index", field, 0, "sorted") for field in fields])


async def count_all(store: Store) -> None:
    await store.admin.begin_census(ALL, "one")
    await store.admin.end_census(ALL, "one")


async def take(store: Store) -> list[FeedItem]:
    return await store.read_feed(ALL, PROJECTORS, "one", FEED_LENGTH_COUNT)


async def test_nothing_is_found_before_the_first_append_and_a_census_makes_it_sure(store: Store) -> None:
    assert await look_up(store, "per_1\n") == FoundFields(fields=[], ahead=[], unsure=list(ALL))
    await count_all(store)
    assert await look_up(store, "per_1\n") == FoundFields(fields=[], ahead=[], unsure=[])


async def test_the_fields_with_the_prefix_are_found_in_all_partitions_in_order(store: Store) -> None:
    await list_fields(store, SESSION, "per_1\nses_2", "per_1\nses_1", "per_10\nses_1", "per_0\nses_1", "per_é\nses_1")
    await list_fields(store, PROJECT, "per_1\nshop")
    assert store.partition_of(SESSION) != store.partition_of(PROJECT)
    names = ["per_1\nses_1", "per_1\nses_2", "per_1\nshop", "per_10\nses_1"]
    assert (await look_up(store, "per_1\n")).fields == names[:3]
    assert (await look_up(store, "per_1")).fields == names
    assert (await look_up(store, "per_é")).fields == ["per_é\nses_1"]
    assert (await look_up(store, "per_1\n", 2)).fields == names[:2]
    assert (await look_up(store, "per_1\n", 0)).fields == []
    assert (await store.views.look_up("none", "", 10)).fields == []


async def test_a_stream_is_ahead_until_its_line_is_acknowledged(store: Store) -> None:
    await count_all(store)
    await written(store, b"a")
    assert await look_up(store, "x") == FoundFields(fields=[], ahead=[SESSION], unsure=[])
    items = await take(store)
    assert await look_up(store, "x") == FoundFields(fields=[], ahead=[SESSION], unsure=[])
    await store.acknowledge(PROJECTORS, items)
    assert await look_up(store, "x") == FoundFields(fields=[], ahead=[], unsure=[])


async def test_another_group_s_reading_counts_for_nothing(store: Store) -> None:
    await count_all(store)
    await written(store, b"a")
    await store.acknowledge("notifier", await store.read_feed(ALL, "notifier", "one", 10))
    assert (await look_up(store, "x")).ahead == [SESSION]


async def test_a_stream_is_named_once_however_many_lines_it_has(store: Store) -> None:
    await count_all(store)
    head = await written(store, b"a")
    await take(store)
    head = await written(store, b"b", after=head)
    await written(store, b"c", after=head)
    assert (await look_up(store, "x")).ahead == [SESSION]


async def test_a_stream_that_no_projector_could_read_is_always_named(store: Store) -> None:
    await count_all(store)
    await store.project(PROJECT, START, START, [ViewWrite(SKIPPED, PROJECT.name, 0, "sorted")])
    assert (await look_up(store, "x")).ahead == [PROJECT]
    await store.project(PROJECT, START, START, [ViewWrite(SKIPPED, PROJECT.name, None, "sorted")])
    assert (await look_up(store, "x")).ahead == []


async def test_a_partition_is_sure_only_after_a_finished_census(store: Store) -> None:
    await written(store, b"a")
    assert await store.admin.uncounted(ALL) == list(ALL)
    assert (await look_up(store, "x")).unsure == list(ALL)
    await store.admin.begin_census(ALL, "one")
    assert (await look_up(store, "x")).unsure == list(ALL)
    await store.admin.end_census(ALL, "one")
    assert (await look_up(store, "x")).unsure == []
    assert await store.admin.uncounted(ALL) == []


async def test_a_census_that_another_began_after_is_not_finished(store: Store) -> None:
    await store.admin.begin_census(ALL, "one")
    await store.admin.begin_census(ALL, "two")
    await store.admin.end_census(ALL, "one")
    assert await store.admin.uncounted(ALL) == list(ALL)
    await store.admin.end_census(ALL, "two")
    assert await store.admin.uncounted(ALL) == []


async def test_a_census_is_void_where_views_were_dropped_since_it_began(store: Store) -> None:
    own = store.partition_of(SESSION)
    await written(store, b"a")
    await store.admin.begin_census(ALL, "one")
    await store.drop_views(own)
    await store.admin.end_census(ALL, "one")
    assert await store.admin.uncounted(ALL) == [own]
    assert (await look_up(store, "x")).unsure == [own]


async def test_a_census_can_be_withdrawn(store: Store) -> None:
    await count_all(store)
    await store.admin.withdraw_census([1, 2])
    assert await store.admin.uncounted(ALL) == [1, 2]
    await store.admin.withdraw_census([])
    await store.admin.begin_census([], "two")
    await store.admin.end_census([], "two")
    assert await store.admin.uncounted([]) == []


async def test_a_feed_that_was_trimmed_before_it_was_read_is_unsure_and_a_gap(store: Store) -> None:
    own = store.partition_of(SESSION)
    await count_all(store)
    head = START
    for _ in range(FEED_LENGTH_COUNT - 1):
        head = await written(store, b"x", after=head)
    assert await look_up(store, "x") == FoundFields(fields=[], ahead=[SESSION], unsure=[])
    assert await gaps(store, ALL, PROJECTORS) == []
    for _ in range(2):
        head = await written(store, b"x", after=head)
    assert await look_up(store, "x") == FoundFields(fields=[], ahead=[SESSION], unsure=[own])
    assert await gaps(store, ALL, PROJECTORS) == [own]
