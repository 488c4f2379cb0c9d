"""Lookups in an index of the views, with the streams that are ahead of it; the same on every store."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ledger.core.limits import FEED_LENGTH_COUNT
from ledger.stores.keys import CENSUS, PROJECTORS
from ledger.stores.port import CENSUS_BEGUN, CENSUS_DONE, SKIPPED, START, FeedItem, FoundFields, StreamKey, ViewWrite
from ledger.stores.store import Store
from projections.lag import StreamWalk, uncounted
from tests.support.backends import PARTITION_COUNT, PROJECT, SESSION, written
from tests.support.store_calls import checkpoint, project

ALL = range(PARTITION_COUNT)


async def look_up(store: Store, prefix: str, count: int = 10) -> FoundFields:
    return await store.look_up("index", prefix, count)


async def list_fields(store: Store, key: StreamKey, *fields: str) -> None:
    at = await checkpoint(store, key)
    assert await project(store, key, at, at, [ViewWrite("index", field, 0, "sorted") for field in fields])


def walk_of(store: Store) -> StreamWalk:
    async def catch_up(_: Sequence[StreamKey]) -> None: ...

    return StreamWalk(store, catch_up)


async def walk_to_its_end(walk: StreamWalk) -> None:
    while not (await walk.step()).ended:
        pass


async def count_all(store: Store) -> None:
    await walk_to_its_end(walk_of(store))


def found(*unprojected: StreamKey, incomplete: Iterable[int] = (), read: Iterable[int] = ()) -> FoundFields:
    return FoundFields(fields=[], unprojected=list(unprojected), incomplete=list(incomplete), read=list(read))


async def take(store: Store) -> Sequence[FeedItem]:
    return (await store.read_feed(ALL, PROJECTORS, "one", FEED_LENGTH_COUNT)).items


async def test_nothing_is_found_before_the_first_append_and_a_census_makes_it_sure(store: Store) -> None:
    assert await look_up(store, "per_1\n") == found(incomplete=ALL)
    await count_all(store)
    assert await look_up(store, "per_1\n") == found()


async def test_the_fields_with_the_prefix_are_found_in_all_partitions_in_order(store: Store) -> None:
    await list_fields(store, SESSION, "per_1\nses_2", "per_1\nses_1", "per_10\nses_1", "per_0\nses_1", "per_é\nses_1")
    await list_fields(store, PROJECT, "per_1\nshop")
    assert SESSION.partition(store.partition_count) != PROJECT.partition(store.partition_count)
    names = ["per_1\nses_1", "per_1\nses_2", "per_1\nshop", "per_10\nses_1"]
    assert (await look_up(store, "per_1\n")).fields == names[:3]
    assert (await look_up(store, "per_1")).fields == names
    assert (await look_up(store, "per_é")).fields == ["per_é\nses_1"]
    assert (await look_up(store, "per_1\n", 2)).fields == names[:2]
    assert (await look_up(store, "per_1\n", 0)).fields == []
    assert (await store.look_up("none", "", 10)).fields == []


async def test_a_stream_is_ahead_until_its_line_is_acknowledged(store: Store) -> None:
    await count_all(store)
    await written(store, b"a")
    assert await look_up(store, "x") == found(SESSION)
    items = await take(store)
    assert await look_up(store, "x") == found(SESSION)
    await store.acknowledge(PROJECTORS, items)
    assert await look_up(store, "x") == found()


async def test_another_group_s_reading_counts_for_nothing(store: Store) -> None:
    await count_all(store)
    await written(store, b"a")
    await store.acknowledge("notifier", (await store.read_feed(ALL, "notifier", "one", 10)).items)
    assert (await look_up(store, "x")).unprojected == [SESSION]


async def test_a_stream_is_named_once_however_many_lines_it_has(store: Store) -> None:
    await count_all(store)
    head = await written(store, b"a")
    await take(store)
    head = await written(store, b"b", after=head)
    await written(store, b"c", after=head)
    assert (await look_up(store, "x")).unprojected == [SESSION]


async def test_a_stream_that_no_projector_could_read_is_always_named(store: Store) -> None:
    await count_all(store)
    await project(store, PROJECT, START, START, [ViewWrite(SKIPPED, PROJECT.name, 0, "sorted")])
    assert (await look_up(store, "x")).unprojected == [PROJECT]
    await project(store, PROJECT, START, START, [ViewWrite(SKIPPED, PROJECT.name, None, "sorted")])
    assert (await look_up(store, "x")).unprojected == []


async def test_a_partition_is_sure_only_after_a_finished_census(store: Store) -> None:
    await written(store, b"a")
    walk = walk_of(store)
    assert await uncounted(store) == list(ALL)
    assert (await look_up(store, "x")).incomplete == list(ALL)
    while not (await walk.step()).ended:
        assert (await look_up(store, "x")).incomplete == list(ALL)
    assert (await look_up(store, "x")).incomplete == []
    assert await uncounted(store) == []


async def write_census(store: Store, field: str, name: bytes) -> None:
    for one in ALL:
        assert await store.project(one, (), [ViewWrite(CENSUS, field, name)])


async def test_a_census_that_another_began_after_is_not_finished(store: Store) -> None:
    await write_census(store, CENSUS_BEGUN, b"one")
    await write_census(store, CENSUS_BEGUN, b"two")
    await write_census(store, CENSUS_DONE, b"one")
    assert await uncounted(store) == list(ALL)
    await write_census(store, CENSUS_DONE, b"two")
    assert await uncounted(store) == []


async def test_a_census_is_void_where_views_were_dropped_since_it_began(store: Store) -> None:
    own = SESSION.partition(store.partition_count)
    await written(store, b"a")
    await write_census(store, CENSUS_BEGUN, b"one")
    await store.drop_views(own, ())
    await write_census(store, CENSUS_DONE, b"one")
    assert await uncounted(store) == [own]
    assert (await look_up(store, "x")).incomplete == [own]


async def test_an_unsure_partition_tells_whether_a_projector_has_read_its_feed(store: Store) -> None:
    await written(store, b"a")
    assert (await look_up(store, "x")).read == []
    await store.read_feed(ALL, "notifier", "one", 10)
    assert (await look_up(store, "x")).read == []
    await take(store)
    assert (await look_up(store, "x")).read == [SESSION.partition(store.partition_count)]
    await count_all(store)
    assert (await look_up(store, "x")).read == []


async def test_a_census_is_withdrawn_where_a_feed_was_trimmed(store: Store) -> None:
    await count_all(store)
    walk = walk_of(store)
    await walk.want([1, 2])
    assert await uncounted(store) == [1, 2]


async def test_a_feed_that_was_trimmed_before_it_was_read_is_unsure_and_a_gap(store: Store) -> None:
    own = SESSION.partition(store.partition_count)
    await count_all(store)
    head = START
    for _ in range(FEED_LENGTH_COUNT - 1):
        head = await written(store, b"x", after=head)
    assert await look_up(store, "x") == found(SESSION)
    for _ in range(2):
        head = await written(store, b"x", after=head)
    assert await look_up(store, "x") == found(SESSION, incomplete=[own])
    assert (await store.read_feed(ALL, PROJECTORS, "one", 1)).gaps == [own]
