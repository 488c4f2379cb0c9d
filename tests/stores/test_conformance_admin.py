"""Administrative reads of a store; the same on every store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from ledger.core.errors import InputError
from ledger.core.limits import FEED_LENGTH_COUNT
from ledger.log.tail import raw_page
from ledger.stores.port import (
    CHECKPOINTS_VIEW,
    START,
    Due,
    Entry,
    FeedFacts,
    FeedItem,
    Position,
    RawEntry,
    StreamKey,
    TakenLines,
    ViewWrite,
    WantedFields,
)
from ledger.stores.redis.store import RedisStore
from ledger.stores.store import Store
from projections.lag import lag_counts, set_back_ms
from tests.support.backends import (
    PARTITION_COUNT,
    PROJECT,
    SESSION,
    Backend,
    Operator,
    as_redis,
    at,
    entries,
    log_of,
    view_names,
    written,
)
from tests.support.store_calls import checkpoint, drop_all_views, positions, project, view, view_fields

ALL = range(PARTITION_COUNT)
MS = 1_700_000_000_000
THREE = (Entry(MS, 1, b"a"), Entry(MS, 2, b"b", b"content"), Entry(MS, 3, b"c"))
LONG_MS = 3_600_000


# --- views -----------------------------------------------------------------------------------------------------------


async def test_several_views_are_read_as_of_one_instant(store: Store) -> None:
    writes = [
        ViewWrite("pending", "per_1", b"\x00one"),
        ViewWrite("recent", "ses_1", 1_800_000_000_000, "sorted"),
        ViewWrite("counts", "allowed", 3, "count"),
    ]
    await project(store, SESSION, START, at(1), writes)
    assert await store.read_views(
        SESSION.partition(store.partition_count), ["pending", "recent", "counts", "none"]
    ) == {
        "pending": {"per_1": b"\x00one"},
        "recent": {"ses_1": b"1800000000000"},
        "counts": {"allowed": b"3"},
        "none": {},
    }


async def test_some_fields_are_read_in_the_order_asked_for(store: Store) -> None:
    await project(store, SESSION, START, at(1), [ViewWrite("pending", name, name.encode()) for name in "abc"])
    partition = SESSION.partition(store.partition_count)
    assert await view_fields(store, "pending", partition, ["c", "x", "a"]) == [b"c", None, b"a"]


async def test_fields_of_several_hashes_are_read_at_once(store: Store) -> None:
    writes = [ViewWrite(view, "a", view.encode()) for view in ("sessions", "pending")]
    await project(store, SESSION, START, at(1), writes)
    partition = SESSION.partition(store.partition_count)
    other = (partition + 1) % store.partition_count
    wanted = [
        WantedFields("pending", partition, ["b", "a"]),
        WantedFields("pending", other, ["a"]),
        WantedFields("sessions", partition, ["a"]),
    ]
    assert await store.view_fields(wanted) == [[None, b"pending"], [None], [b"sessions"]]
    assert await store.view_fields([]) == []


async def test_the_names_of_all_fields_of_a_hash_are_read(store: Store) -> None:
    writes = [ViewWrite(view, f"{view}-{name}", b"1") for view in ("sessions", "pending") for name in "ab"]
    await project(store, SESSION, START, at(1), writes)
    partition = SESSION.partition(store.partition_count)
    assert sorted(await view(store, "pending", partition)) == ["pending-a", "pending-b"]
    assert await view(store, "none", partition) == {}
    assert await view(store, "pending", (partition + 1) % store.partition_count) == {}


async def test_pages_of_names_in_all_partitions_follow_each_other(store: Store) -> None:
    names = [f"all\n{number:03}" for number in range(60)]
    for number, name in enumerate(names):
        key = StreamKey("session", f"ses_{number}")
        fields = (name, f"a\n{number}", f"b\n{number}")
        await project(store, key, START, at(1), [ViewWrite("latest", one, 0, "sorted") for one in fields])
    for count in (1, 7, 60, 100):
        seen: list[str] = []
        page = await store.view_page("latest", "all\n", count)
        while page:
            assert len(page) <= count
            seen += page
            page = await store.view_page("latest", "all\n", count, page[-1])
        assert seen == names
        seen, page = [], await store.view_page("latest", "all\n", count, backwards=True)
        while page:
            seen += page
            page = await store.view_page("latest", "all\n", count, page[-1], backwards=True)
        assert seen == names[::-1]
    assert await store.view_page("latest", "all\n", 2, "all\n0105", backwards=True) == [names[10], names[9]]
    assert await store.view_page("latest", "all\n", 2, "all\n0105") == names[11:13], "after a name that is not there"
    assert await store.view_page("latest", "none\n", 5) == []


async def test_a_page_of_names_is_whole_where_one_partition_has_all(store: Store) -> None:
    key = StreamKey("session", "ses_1")
    names = [f"all\n{number:04}" for number in range(300)]
    await project(store, key, START, at(1), [ViewWrite("latest", name, 0, "sorted") for name in names])
    assert await store.view_page("latest", "all\n", 250) == names[:250]
    assert await store.view_page("latest", "all\n", 250, names[249]) == names[250:]
    assert await store.view_page("latest", "all\n", 250, backwards=True) == names[:49:-1]


async def test_names_are_found_by_how_they_begin_in_all_partitions(store: Store) -> None:
    for number in range(9):
        key = StreamKey("session", f"ses_{number}")
        names = [f"r{number % 3}\n{key.id}", f"r{number % 3}ü\n{key.id}"]
        await project(store, key, START, at(1), [ViewWrite("requests", name, 0, "sorted") for name in names])
    assert await store.view_page("requests", "r1\n", None) == ["r1\nses_1", "r1\nses_4", "r1\nses_7"]
    assert await store.view_page("requests", "r1ü\n", None) == ["r1ü\nses_1", "r1ü\nses_4", "r1ü\nses_7"]
    assert await store.view_page("requests", "r\n", None) == []


async def test_every_view_that_holds_anything_is_named(store: Store) -> None:
    assert await view_names(store) == set()
    await written(store, b"x")
    await project(
        store, SESSION, START, at(1), [ViewWrite("pending", "a", b"1"), ViewWrite("timeline:ses:1", "1", b"x")]
    )
    own = SESSION.partition(store.partition_count)
    found = await view_names(store) - {(own, CHECKPOINTS_VIEW)}
    assert found == {(own, "pending"), (own, "timeline:ses:1")}


async def test_the_views_that_are_named_are_dropped_with_the_checkpoints_and_no_others(store: Store) -> None:
    await project(store, SESSION, START, at(1), [ViewWrite("pending", "a", b"1"), ViewWrite("other", "a", b"1")])
    own = SESSION.partition(store.partition_count)
    await store.drop_views(own, ("pending", "never_there"))
    assert await view_names(store) == {(own, "other")}
    assert await checkpoint(store, SESSION) == START
    await drop_all_views(store, own)
    assert await view_names(store) == set()


# --- streams ---------------------------------------------------------------------------------------------------------


async def test_short_streams_are_read_whole_in_one_call_and_others_are_named_by_none(store: Store) -> None:
    long, never_there = StreamKey("session", "ses_long"), StreamKey("project", "never_there")
    await written(store, b"a", (b"b", b"content"))
    await written(store, b"a", b"b", b"c", key=long)
    short, *others = await store.short_streams([SESSION, long, never_there], 3)
    opening = await store.open(SESSION)
    assert short is not None
    assert (short.info.length, short.info.last) == (2, opening.entries[-1].position)
    assert short.entries == opening.entries
    assert others == [None, None]
    assert await store.short_streams([], 3) == []


async def test_entries_are_read_raw(store: Store) -> None:
    head = await written(store, b"a", (b"b", b"content"))
    raw = await raw_page(store, SESSION, START, 10)
    second = RawEntry(f"{head.ms}-2", ((b"d", b"b"), (b"x", b"content")))
    assert raw == (RawEntry(f"{head.ms}-1", ((b"d", b"a"),)), second)
    assert await raw_page(store, SESSION, Position.parse(raw[0].id), 10) == raw[1:]
    assert await raw_page(store, PROJECT, START, 10) == ()


async def test_entries_of_others_are_read_raw_too(server_store: RedisStore) -> None:
    await server_store.command("XADD", server_store.keys.stream(SESSION), "7-0", "x", "1", "y", "2")
    assert await raw_page(server_store, SESSION, START, 10) == (RawEntry("7-0", ((b"x", b"1"), (b"y", b"2"))),)


async def test_the_last_entries_of_many_streams_are_read_at_once(store: Store) -> None:
    head = await written(store, b"a", b"b")
    assert await positions(store, [PROJECT, SESSION]) == [START, head]
    assert await positions(store, []) == []


async def test_restored_entries_bear_their_own_ids(backend: Backend) -> None:
    store, other = await backend.open(), await backend.open()
    assert await store.restore(SESSION, START, THREE, None)
    assert await log_of(other) == THREE
    info = await other.info(SESSION)
    assert info is not None
    assert (info.length, info.entries_added, info.last) == (3, 3, Position(MS, 3))
    head = await written(other, b"d", after=Position(MS, 3))
    assert head.version == 4


async def test_restoring_goes_on_after_what_is_there_and_twice_is_once(store: Store) -> None:
    assert await store.restore(SESSION, START, THREE[:2], None)
    assert await store.restore(SESSION, Position(MS, 2), THREE[2:], None)
    assert await store.restore(SESSION, Position(MS, 2), THREE[2:], None)
    assert await log_of(store) == THREE


@pytest.mark.parametrize(
    ("after", "some"),
    [
        (START, THREE[:1]),
        (Position(MS, 1), THREE[1:]),
        (Position(MS, 3), entries(MS, 4, [b"x"])),
        (START, (Entry(MS, 2, b"other"),)),
    ],
)
async def test_a_stream_that_ends_elsewhere_is_left_as_it_is(
    store: Store, after: Position, some: tuple[Entry, ...]
) -> None:
    assert await store.restore(SESSION, START, THREE[:2], None)
    assert not await store.restore(SESSION, after, some, None)
    assert await log_of(store) == THREE[:2]


async def test_restoring_tells_the_feed_and_sets_the_deadline(store: Store) -> None:
    assert await store.restore(SESSION, START, THREE, Due(MS + 5))
    (line,) = (await store.read_feed(ALL, "views", "one", 10)).items
    assert (line.key, line.version) == (SESSION, 3)
    assert await store.due(None, 10) == [("ses_1", MS + 5)]
    assert await store.restore(SESSION, Position(MS, 3), entries(MS, 4, [b"d"]), Due(None))
    assert await store.due(None, 10) == [("ses_1", None)]


async def pages_of(backend: Backend) -> list[list[StreamKey]]:
    """Return all pages of streams, each read by another process: a cursor is good for all of them."""
    stores = [await backend.open() for _ in range(2)]
    pages: list[list[StreamKey]] = []
    cursor = ""
    while True:
        page, cursor = await stores[len(pages) % 2].streams_page(cursor, 10)
        pages.append(page)
        if not cursor:
            return pages


async def test_streams_are_listed_page_by_page_and_each_comes(backend: Backend) -> None:
    store = await backend.open()
    keys = {StreamKey("session", f"ses_{number}") for number in range(40)} | {PROJECT}
    for key in keys:
        await written(store, b"x", key=key)
    pages = await pages_of(backend)
    assert {key for page in pages for key in page} == keys
    assert len(pages) > 1


async def test_without_streams_all_pages_are_empty(backend: Backend) -> None:
    assert [key for page in await pages_of(backend) for key in page] == []


async def test_what_is_no_cursor_is_refused(store: Store) -> None:
    for text in ("x", "-1", "0/run/x", "0/0"):
        with pytest.raises(InputError, match="is not a cursor that was handed out"):
            await store.streams_page(text, 10)


async def test_notes_of_workers_are_kept_by_name(backend: Backend) -> None:
    store, other = await backend.open(), await backend.open()
    assert await store.notes("walk") == {}
    await store.note("walk", "a", b"1")
    await store.note("walk", "b", b"\x00")
    await store.note("walk", "a", b"2")
    await store.note("walk", "b", b"3", once=True)
    assert await other.notes("walk") == {"a": b"2", "b": b"\x00"}
    assert await other.notes("other") == {}


# --- feeds -----------------------------------------------------------------------------------------------------------


async def overrun(store: Store, head: Position, lines: int) -> Position:
    for _ in range(lines):
        head = await written(store, b"x", after=head)
    return head


async def take(store: Store, idle_ms: int | None = None, *, of: Sequence[int] = ALL, count: int = 10) -> TakenLines:
    return await store.read_feed(of, "views", "one", count, idle_ms)


async def test_a_feed_that_is_read_in_time_has_no_gap(store: Store) -> None:
    assert await take(store, 0) == ([], [], 0)
    head = await written(store, b"a")
    assert (await take(store)).gaps == []
    await overrun(store, head, 3)
    taken = await take(store, 0)
    assert ([item.version for item in taken.items], taken.gaps, taken.taken_over) == ([1, 2, 3, 4], [], 1)


async def test_lines_that_were_dropped_before_they_were_read_are_a_gap_until_the_next_are_read(store: Store) -> None:
    head = await written(store, b"a")
    await take(store)
    await overrun(store, head, FEED_LENGTH_COUNT + 1)
    own = SESSION.partition(store.partition_count)
    assert (await take(store, of=[one for one in ALL if one != own])).gaps == []
    assert (await take(store, count=5000)).gaps == [own]
    assert await take(store) == ([], [], 0)


async def test_a_full_feed_that_the_group_never_read_is_a_gap(store: Store) -> None:
    head = await written(store, b"a")
    head = await overrun(store, head, FEED_LENGTH_COUNT - 2)
    assert (await store.read_feed(ALL, "early", "one", 10)).gaps == []
    await overrun(store, head, 1)
    assert (await store.read_feed(ALL, "late", "one", 10)).gaps == [SESSION.partition(store.partition_count)]


async def test_lines_that_are_dropped_while_others_are_read_are_a_gap(
    server_store: RedisStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = await written(server_store, b"a")
    await take(server_store)
    read = server_store._new_lines

    async def overtaken(*given: Any) -> list[FeedItem]:
        nonlocal head
        head = await overrun(server_store, head, FEED_LENGTH_COUNT + 1)
        return await read(*given)

    monkeypatch.setattr(server_store, "_new_lines", overtaken)
    assert (await take(server_store)).gaps == [SESSION.partition(server_store.partition_count)]


async def test_lines_that_were_dropped_while_a_consumer_works_on_them_stay_owed(store: Store) -> None:
    head = await written(store, b"a")
    await store.read_feed(ALL, "views", "slow", 10)
    await overrun(store, head, FEED_LENGTH_COUNT + 1)
    await take(store, LONG_MS)
    own = SESSION.partition(store.partition_count)
    (group,) = (await store.feeds())[own].groups
    assert group.pel_count == 1 + 10


async def test_lines_of_a_working_consumer_that_are_dropped_with_idle_ones_are_a_gap(
    server_store: RedisStore,
) -> None:
    own = SESSION.partition(server_store.partition_count)
    feed = server_store.keys.feed(own)
    head = await written(server_store, b"a")
    await server_store.read_feed(ALL, "views", "slow", 10)
    head = await overrun(server_store, head, FEED_LENGTH_COUNT)
    (item,) = (await server_store.read_feed(ALL, "views", "dead", 1)).items
    entry_id = item.item_id.partition("/")[2]
    await server_store.ask([("XCLAIM", feed, "views", "dead", 0, entry_id, "IDLE", LONG_MS * 2)])
    taken = await take(server_store, LONG_MS)
    assert (taken.taken_over, taken.gaps) == (1, [own])


@pytest.mark.parametrize("idle_ms", [0, LONG_MS])
async def test_lines_that_were_dropped_before_they_were_acknowledged_are_a_gap_when_they_are_old(
    store: Store, idle_ms: int
) -> None:
    head = await written(store, b"a")
    await store.read_feed(ALL, "views", "dead", 10)
    head = await overrun(store, head, FEED_LENGTH_COUNT - 1)
    taken = await take(store, count=5000)
    assert taken.gaps == []
    await store.acknowledge("views", taken.items)
    await overrun(store, head, 1)
    assert (await take(store, idle_ms)).gaps == ([] if idle_ms else [SESSION.partition(store.partition_count)])


async def test_lines_are_owed_until_they_are_acknowledged_and_looking_takes_none(store: Store) -> None:
    assert await store.unacknowledged("views", {}, 10) == []
    head = await written(store, b"a")
    head = await written(store, b"b", after=head)
    await written(store, b"c", after=head)
    own = SESSION.partition(store.partition_count)
    for _ in range(2):
        (lines,) = await store.unacknowledged("views", {}, 10)
        assert [item.version for item in lines.items] == [1, 2, 3]
        assert (lines.partition, lines.trimmed, lines.complete) == (own, False, True)
    items = (await store.read_feed(ALL, "views", "one", 2)).items
    await store.acknowledge("views", items[:1])
    (lines,) = await store.unacknowledged("views", {}, 10)
    assert [item.version for item in lines.items] == [2, 3]
    items = [*items, *(await store.read_feed(ALL, "views", "one", 10)).items]
    await store.acknowledge("views", items)
    assert await store.unacknowledged("views", {}, 10) == []
    (lines,) = await store.unacknowledged("others", {}, 10)
    assert [item.version for item in lines.items] == [1, 2, 3]


async def test_owed_lines_go_on_after_those_that_were_seen(store: Store) -> None:
    head = START
    for _ in range(5):
        head = await written(store, b"x", after=head)
    own, since, versions = SESSION.partition(store.partition_count), "", list[int]()
    for complete in (False, False, True):
        (lines,) = await store.unacknowledged("views", {own: since} if since else {}, 2)
        assert lines.complete is complete
        versions += [item.version for item in lines.items]
        since = lines.after
    assert versions == [1, 2, 3, 4, 5]
    assert await store.unacknowledged("views", {own: since}, 2) == []


async def test_owed_lines_that_were_dropped_are_told(store: Store) -> None:
    head = await written(store, b"a")
    items = (await store.read_feed(ALL, "views", "one", 10)).items
    await store.acknowledge("views", items)
    head = await overrun(store, head, FEED_LENGTH_COUNT)
    (lines,) = await store.unacknowledged("others", {}, 1)
    assert (lines.trimmed, lines.items[0].version) == (True, 2)
    await overrun(store, head, 1)
    (lines,) = await store.unacknowledged("views", {}, 1)
    assert (lines.trimmed, lines.items[0].version) == (True, 3)


async def test_a_partition_tells_its_feed_and_its_groups(store: Store) -> None:
    head = await written(store, b"a")
    await written(store, b"b", after=head)
    await store.read_feed(ALL, "views", "one", 1)
    own = SESSION.partition(store.partition_count)
    facts = await store.feeds()
    assert [one.partition for one in facts] == list(ALL)
    assert [one for one in facts if one.partition != own] == [
        FeedFacts(partition=one, last=None, feed_count=0, groups=()) for one in ALL if one != own
    ]
    mine = facts[own]
    assert mine.feed_count == 2
    assert mine.last is not None
    assert mine.last[1:] == (SESSION, 2, False)
    (group,) = mine.groups
    assert (group.name, group.consumer_count, group.pel_count) == ("views", 1, 1)
    assert await lag_counts(store, facts) == {("views", own): 1}


async def test_names_of_consumers_that_owe_nothing_are_dropped(server_backend: Backend) -> None:
    store = as_redis(await server_backend.open())
    head = await written(store, b"a")
    done = (await store.read_feed(ALL, "views", "done", 10)).items
    await store.acknowledge("views", done)
    await written(store, b"b", after=head)
    await store.read_feed(ALL, "views", "owing", 10)

    async def names() -> set[str]:
        feed = store.keys.feed(SESSION.partition(store.partition_count))
        return {facts[1].decode() for facts in await store.command("XINFO", "CONSUMERS", feed, "views")}

    await store.drop_consumers("views", LONG_MS)
    assert await names() == {"done", "owing"}
    await store.drop_consumers("views", 0, "owing")
    assert await names() == {"done", "owing"}
    await store.drop_consumers("views", 0, "done")
    assert await names() == {"owing"}
    await store.acknowledge("views", (await store.read_feed(ALL, "views", "owing", 10, 0)).items)
    await store.drop_consumers("views", 0)
    assert await names() == set()


async def test_a_server_that_takes_writes_and_has_a_clock_that_runs_on_is_in_order(store: Store) -> None:
    await written(store, b"a")
    await store.check_writable()
    assert await set_back_ms(store) == 0


async def test_a_clock_that_was_set_back_is_behind_the_newest_line_of_a_feed(
    live_server_store: RedisStore, admin: Operator
) -> None:
    await written(live_server_store, b"a")
    seconds, _ = await admin.run("TIME")
    feed = live_server_store.keys.feed(SESSION.partition(live_server_store.partition_count))
    # As a feed is in an hour that the clock repeats.
    await admin.run("XADD", feed, f"{int(seconds) * 1000 + LONG_MS}-0", "s", SESSION.name, "v", 2)
    await written(live_server_store, b"b", key=PROJECT)
    assert 0 < LONG_MS - await set_back_ms(live_server_store) < 60_000


async def test_a_server_tells_its_version_and_its_settings(server_store: RedisStore) -> None:
    facts = (await server_store.server_facts())[0]
    assert {"redis_version", "maxmemory_policy", "aof_enabled", "role"} <= set(facts)
    assert (facts["config_appendonly"], facts["config_maxmemory-policy"]) == ("no", "noeviction")
