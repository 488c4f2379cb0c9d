"""The feed of each partition, read by consumer groups; the same on every store."""

from __future__ import annotations

from collections.abc import Sequence

from ledger.core.limits import FEED_LENGTH_COUNT
from ledger.stores.port import START, FeedItem, Position, StreamKey
from ledger.stores.store import Store
from tests.support.backends import PARTITION_COUNT, PROJECT, SESSION, Backend, answer_to, append_of, written

ALL = range(PARTITION_COUNT)
LONG_MS = 3_600_000


def seen(items: Sequence[FeedItem]) -> list[tuple[StreamKey, int]]:
    return [(item.key, item.version) for item in items]


async def test_a_feed_without_appends_is_empty(store: Store) -> None:
    assert (await store.read_feed(ALL, "views", "one", 10)).items == []
    assert (await store.read_feed(ALL, "views", "one", 10, 0)).items == []
    await store.acknowledge("views", [])


async def test_every_append_is_one_line_that_says_how_far_the_stream_is(store: Store) -> None:
    head = await written(store, b"a", b"b")
    await written(store, b"c", after=head)
    await answer_to(store, append_of(b"refused"))
    assert seen((await store.read_feed(ALL, "views", "one", 10)).items) == [(SESSION, 2), (SESSION, 3)]


async def test_sessions_and_projects_of_all_partitions_are_fed(store: Store) -> None:
    keys = [StreamKey("session", f"ses_{number}") for number in range(30)] + [PROJECT]
    for key in keys:
        await written(store, b"x", key=key)
    items = (await store.read_feed(ALL, "views", "one", 100)).items
    assert sorted(seen(items)) == sorted((key, 1) for key in keys)
    assert len({item.item_id for item in items}) == len(keys)


async def test_only_the_partitions_asked_for_are_read(store: Store) -> None:
    await written(store, b"x")
    own = SESSION.partition(store.partition_count)
    assert (await store.read_feed([one for one in ALL if one != own], "views", "one", 10)).items == []
    assert seen((await store.read_feed([own], "views", "one", 10)).items) == [(SESSION, 1)]


async def test_a_line_goes_to_one_consumer_of_a_group_and_to_every_group(backend: Backend) -> None:
    one, other = await backend.open(), await backend.open()
    await written(one, b"a")
    assert seen((await one.read_feed(ALL, "views", "one", 10)).items) == [(SESSION, 1)]
    assert (await other.read_feed(ALL, "views", "other", 10)).items == []
    assert seen((await other.read_feed(ALL, "mirror", "other", 10)).items) == [(SESSION, 1)]


async def test_a_partition_gives_at_most_so_many_lines_at_once_and_the_rest_next_time(store: Store) -> None:
    head = START
    for _ in range(5):
        head = await written(store, b"x", after=head)
    versions: list[int] = []
    for _ in range(3):
        items = (await store.read_feed(ALL, "views", "one", 2)).items
        assert len(items) <= 2
        versions += [item.version for item in items]
    assert versions == [1, 2, 3, 4, 5]
    assert (await store.read_feed(ALL, "views", "one", 2)).items == []


async def test_what_a_dead_consumer_did_not_acknowledge_is_claimed_by_another(backend: Backend) -> None:
    dead, heir = await backend.open(), await backend.open()
    head = await written(dead, b"a")
    await written(dead, b"b", after=head)
    first, second = (await dead.read_feed(ALL, "views", "dead", 10)).items
    await dead.acknowledge("views", [first])
    assert (await heir.read_feed(ALL, "views", "heir", 10, 0)).items == [second]
    await heir.acknowledge("views", [second])
    assert (await heir.read_feed(ALL, "views", "heir", 10, 0)).items == []


async def test_what_was_read_a_moment_ago_is_not_claimed(store: Store) -> None:
    await written(store, b"a")
    await store.read_feed(ALL, "views", "one", 10)
    assert (await store.read_feed(ALL, "views", "two", 10, LONG_MS)).items == []


async def test_only_the_partitions_asked_for_are_claimed_at_most_so_many_lines_each(store: Store) -> None:
    head = await written(store, b"a")
    head = await written(store, b"b", after=head)
    await written(store, b"c", after=head)
    items = (await store.read_feed(ALL, "views", "one", 10)).items
    own = SESSION.partition(store.partition_count)
    assert (await store.read_feed([one for one in ALL if one != own], "views", "two", 10, 0)).items == []
    assert (await store.read_feed([own], "views", "two", 2, 0)).items == items[:2]


async def test_acknowledging_twice_or_for_another_group_harms_nothing(store: Store) -> None:
    await written(store, b"a")
    items = (await store.read_feed(ALL, "views", "one", 10)).items
    await store.acknowledge("mirror", items)
    assert (await store.read_feed(ALL, "views", "two", 10, 0)).items == items
    await store.acknowledge("views", items)
    await store.acknowledge("views", items)
    assert (await store.read_feed(ALL, "views", "two", 10, 0)).items == []


async def test_a_feed_keeps_its_last_lines_only(store: Store) -> None:
    head = Position(0, 0)
    for _ in range(FEED_LENGTH_COUNT + 7):
        head = await written(store, b"x", after=head)
    items = (
        await store.read_feed([SESSION.partition(store.partition_count)], "late", "one", 2 * FEED_LENGTH_COUNT)
    ).items
    assert [item.version for item in items] == list(range(8, FEED_LENGTH_COUNT + 8))


async def test_a_group_that_fell_behind_the_feed_goes_on_with_what_is_there(store: Store) -> None:
    head = await written(store, b"x")
    own = [SESSION.partition(store.partition_count)]
    assert len((await store.read_feed(own, "views", "one", 10)).items) == 1
    for _ in range(FEED_LENGTH_COUNT + 5):
        head = await written(store, b"x", after=head)
    items = (await store.read_feed(own, "views", "one", 3)).items
    assert [item.version for item in items] == [7, 8, 9]


async def ends_of(store: Store) -> list[FeedItem]:
    return [one.last for one in await store.feeds() if one.last is not None]


async def test_the_ends_of_feeds_are_places_after_which_only_new_lines_are_owed(store: Store) -> None:
    assert await ends_of(store) == []
    head = await written(store, b"a", b"b")
    [last] = await ends_of(store)
    assert last[1:] == (SESSION, 2, False)
    ends = {last.partition: last.place}
    assert list(ends) == [SESSION.partition(store.partition_count)]
    assert await store.unacknowledged("nobody", ends, 10) == []
    await written(store, b"c", after=head)
    await written(store, b"x", key=PROJECT)
    owed = await store.unacknowledged("nobody", ends, 10)
    assert sorted(item[1:3] for lines in owed for item in lines.items) == sorted([(SESSION, 3), (PROJECT, 1)])
    assert not any(lines.trimmed for lines in owed)
    places = {line.partition: line.place for line in await ends_of(store)}
    assert places == {lines.partition: lines.after for lines in owed}
