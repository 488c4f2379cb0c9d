"""The tail of a stream, the same on every store: bounded pages after a known entry, checked one against the other."""

from __future__ import annotations

import pytest

from ledger.core import codec
from ledger.core.commitments import after_entry, genesis
from ledger.core.errors import DamageError
from ledger.core.events import Actor, Granted, GrantedDetail
from ledger.log.tail import (
    BEFORE_FIRST,
    LostHistoryError,
    entry_at,
    fold_entries,
    nothing_folded,
    read_events,
    read_folds,
    read_pages,
)
from ledger.stores.port import START, Entry, Position, StreamKey
from ledger.stores.redis.store import RedisStore
from ledger.stores.store import Store
from ledger.testing import TestClock
from tests.support.backends import PROJECT, SESSION, Operator, log_of, written
from tests.support.salts import SALT

COUNT = 23
ANN = Actor("user", "ann")


def encoded(name: str, prev: str) -> codec.EntryFields:
    event = Granted(grant_id=name, permission="bash", scope="project", detail=GrantedDetail(pattern=name))
    return codec.encode(event, event_id=f"evt_{name}", prev=prev, actor=ANN, salt=SALT)


async def grants(store: Store, clock: TestClock, count: int, after: Entry = BEFORE_FIRST, name: str = "g") -> Entry:
    """Append grants to the project's stream, each in an append of its own, and return the last entry."""
    for version in range(after.version + 1, after.version + count + 1):
        clock.advance(1)
        prev = (
            genesis(PROJECT.kind, PROJECT.id) if version == 1 else after_entry(after.ms, after.version, after.payload)
        )
        fields = encoded(f"{name}{version}", prev)
        after = Entry(*await written(store, fields, key=PROJECT, after=after.position), *fields)
    return after


@pytest.fixture
async def filled(store: Store, clock: TestClock) -> Store:
    await grants(store, clock, COUNT)
    return store


async def test_pages_have_all_entries_once_each_and_no_page_more_than_its_bound(filled: Store) -> None:
    whole = await log_of(filled, PROJECT)
    for count in (1, 5, COUNT - 1, COUNT, COUNT + 1, 1000):
        pages = [page async for page in read_pages(filled, PROJECT, count=count)]
        assert [entry for page in pages for entry in page] == list(whole)
        assert max(map(len, pages)) <= count


async def test_pages_begin_after_the_known_entry_and_end_with_the_wanted_version(filled: Store) -> None:
    whole = await log_of(filled, PROJECT)
    for known, until in ((0, 0), (0, 4), (0, COUNT + 9), (3, 3), (3, 4), (7, 12), (7, None), (COUNT, None)):
        last = BEFORE_FIRST if known == 0 else whole[known - 1]
        pages = [page async for page in read_pages(filled, PROJECT, last, until, 4)]
        assert [entry for page in pages for entry in page] == list(whole[known:until])


async def test_a_stream_that_is_not_there_has_no_pages_and_no_events(store: Store) -> None:
    assert [page async for page in read_pages(store, PROJECT)] == []
    assert [event async for event in read_events(store, PROJECT)] == []


async def test_what_is_appended_between_two_pages_is_read_too(store: Store, clock: TestClock) -> None:
    last = await grants(store, clock, 4)
    versions: list[int] = []
    async for page in read_pages(store, PROJECT, count=2):
        versions += [entry.version for entry in page]
        if versions == [1, 2]:
            await grants(store, clock, 3, last)
    assert versions == [1, 2, 3, 4, 5, 6, 7]


async def test_an_entry_is_found_by_its_position_alone(filled: Store) -> None:
    entry = (await log_of(filled, PROJECT))[6]
    assert await entry_at(filled, PROJECT, entry.position) == entry
    for position in (Position(entry.ms, entry.version + 1), Position(entry.ms - 1, entry.version), START):
        assert await entry_at(filled, PROJECT, position) is None


async def test_the_fold_after_each_event_is_that_of_all_events_so_far(filled: Store) -> None:
    whole = await log_of(filled, PROJECT)
    begin = fold_entries(PROJECT, nothing_folded(PROJECT), whole[:5])
    found = [one async for one in read_folds(filled, PROJECT, begin, count=4)]
    assert [recorded async for recorded in read_events(filled, PROJECT)][5:] == [recorded for recorded, _ in found]
    for version, (_, folded) in enumerate(found, 6):
        assert folded == fold_entries(PROJECT, nothing_folded(PROJECT), whole[:version])
        assert len(folded.state.grants) == folded.version == version


async def test_a_known_entry_that_the_stream_does_not_hold_is_lost_history(filled: Store) -> None:
    last = (await log_of(filled, PROJECT))[-1]
    for known in (
        last._replace(payload=b"another history"),
        last._replace(ms=last.ms + 1),
        Entry(last.ms + 5, last.version + 2, b"lost"),
    ):
        with pytest.raises(LostHistoryError, match=f"was read up to {known.position}, which its log does not hold"):
            [page async for page in read_pages(filled, PROJECT, known)]
    with pytest.raises(LostHistoryError):
        [page async for page in read_pages(filled, SESSION, last)]


async def test_entries_lost_between_two_pages_are_noticed(
    server_store: RedisStore, clock: TestClock, admin: Operator
) -> None:
    await grants(server_store, clock, 6)
    pages = read_pages(server_store, PROJECT, count=3)
    assert len(await anext(pages)) == 3
    await admin.run("DEL", server_store.keys.stream(PROJECT))
    await grants(server_store, clock, 6, name="another")
    with pytest.raises(LostHistoryError):
        await anext(pages)


async def test_an_entry_that_does_not_follow_ends_the_events_before_it(store: Store, clock: TestClock) -> None:
    last = await grants(store, clock, 3)
    await written(store, encoded("g4", "0" * 64), key=PROJECT, after=last.position)
    events = read_events(store, PROJECT)
    assert [(await anext(events)).version for _ in range(3)] == [1, 2, 3]
    with pytest.raises(DamageError, match="version 4 does not follow the entry before it; run verify"):
        await anext(events)


async def test_an_entry_that_something_else_wrote_is_damage_of_that_stream(
    server_store: RedisStore, clock: TestClock, admin: Operator
) -> None:
    last = await grants(server_store, clock, 2)
    await admin.run("XADD", server_store.keys.stream(PROJECT), f"{last.ms + 1}-3", "other", "x")
    for known in (BEFORE_FIRST, last):
        with pytest.raises(DamageError, match=f"stream `{PROJECT.name}`: entry .* has other fields than `d`"):
            [page async for page in read_pages(server_store, PROJECT, known)]
    with pytest.raises(DamageError, match="has other fields than `d`"):
        await entry_at(server_store, PROJECT, Position(last.ms + 1, 3))


async def test_deleted_entries_are_damage_although_none_of_the_others_changed(
    server_store: RedisStore, clock: TestClock, admin: Operator
) -> None:
    last = await grants(server_store, clock, 3)
    await admin.run("XDEL", server_store.keys.stream(PROJECT), str(last.position))
    with pytest.raises(DamageError, match=f"entry {last.position} was deleted"):
        [event async for event in read_events(server_store, PROJECT)]


@pytest.mark.parametrize("kind", ["session", "project", "access"])
def test_every_kind_of_stream_has_a_fold_before_its_first_entry(kind: str) -> None:
    key = StreamKey.parse(f"{kind}:some")
    assert nothing_folded(key).last == BEFORE_FIRST
    assert nothing_folded(key).state.version == 0
