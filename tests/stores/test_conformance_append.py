"""Compare-and-append, the same on every store."""

from __future__ import annotations

import asyncio

import pytest

from ledger.core.events import Presence
from ledger.core.limits import CONFLICT_TAIL_COUNT
from ledger.stores.port import START, Appended, Behind, Conflict, Entry, OthersPresent, OutsideWindow, Position
from ledger.stores.store import Store, append_to
from ledger.testing import TestClock
from tests.support.backends import PROJECT, SESSION, Backend, answer_to, append_of, entries, log_of, written

LAPTOP, PHONE, TABLET = Presence("laptop", "ann"), Presence("phone", "ann"), Presence("tablet", "bob")


async def test_the_first_append_makes_the_stream_and_begins_at_version_1(store: Store, clock: TestClock) -> None:
    now_ms = clock.now_ms()
    assert await answer_to(store, append_of(b"one")) == Appended(now_ms, now_ms)
    assert await log_of(store) == (Entry(now_ms, 1, b"one"),)


async def test_events_of_one_append_have_contiguous_versions_and_one_millisecond(
    store: Store, clock: TestClock
) -> None:
    first = await written(store, b"a")
    clock.advance(5)
    last = await written(store, b"b", b"c", b"d", after=first)
    assert last == Position(clock.now_ms(), 4)
    assert await log_of(store) == (
        Entry(clock.now_ms() - 5, 1, b"a"),
        *entries(clock.now_ms(), 2, (b"b", b"c", b"d")),
    )


async def test_an_append_after_exactly_the_last_entry_is_taken(store: Store, clock: TestClock) -> None:
    head = START
    for number in range(5):
        clock.advance(1)
        head = await written(store, b"%d" % number, after=head)
    assert [entry.version for entry in await log_of(store)] == [1, 2, 3, 4, 5]


async def test_a_stale_writer_is_told_what_it_missed_and_nothing_is_written(store: Store, clock: TestClock) -> None:
    first = await written(store, b"a")
    head = await written(store, b"b", b"c", after=first)
    assert await answer_to(store, append_of(b"x", b"y", after=first)) == Conflict(
        entries(first.ms, 2, (b"b", b"c")), head, clock.now_ms()
    )
    assert await answer_to(store, append_of(b"x", after=START)) == Conflict(
        entries(first.ms, 1, (b"a", b"b", b"c")), head, clock.now_ms()
    )
    assert len(await log_of(store)) == 3


async def test_a_long_tail_comes_cut_with_the_head_so_that_the_writer_pages_on(store: Store) -> None:
    payloads = [b"%d" % number for number in range(CONFLICT_TAIL_COUNT + 3)]
    head = await written(store, *payloads)
    answer = await answer_to(store, append_of(b"x"))
    assert isinstance(answer, Conflict)
    assert answer.head == head
    assert answer.entries == entries(head.ms, 1, payloads[:CONFLICT_TAIL_COUNT])
    rest = await store.read(SESSION, answer.entries[-1].position, 1000)
    assert [entry.payload for entry in rest] == payloads[CONFLICT_TAIL_COUNT:]


async def test_a_writer_that_is_ahead_of_the_log_is_behind_in_truth(store: Store, clock: TestClock) -> None:
    head = await written(store, b"a")
    ahead = Position(head.ms, 3)
    assert await answer_to(store, append_of(b"x", after=ahead)) == Behind(head, clock.now_ms())
    assert len(await log_of(store)) == 1


async def test_a_writer_with_a_history_is_behind_on_a_stream_that_is_not_there(store: Store, clock: TestClock) -> None:
    seen = Position(clock.now_ms(), 7)
    assert await answer_to(store, append_of(b"x", after=seen)) == Behind(START, clock.now_ms())
    assert await store.info(SESSION) is None


@pytest.mark.parametrize("version", [1, 2, 3])
async def test_another_history_of_the_same_or_another_length_is_not_taken_for_the_own_one(
    store: Store, clock: TestClock, version: int
) -> None:
    head = await written(store, b"a", b"b")
    elsewhere = Position(head.ms - 1, version)
    assert await answer_to(store, append_of(b"x", after=elsewhere)) == Behind(head, clock.now_ms())
    assert len(await log_of(store)) == 2


async def test_ids_never_fall_when_the_servers_clock_is_set_back(store: Store, clock: TestClock) -> None:
    head = await written(store, b"a")
    clock.set(head.ms - 3_600_000)
    assert await answer_to(store, append_of(b"b", after=head)) == Appended(head.ms, head.ms - 3_600_000)
    assert await log_of(store) == entries(head.ms, 1, (b"a", b"b"))


@pytest.mark.parametrize(
    ("early", "late"), [(None, None), (0, None), (None, 0), (0, 0), (-1, 1)], ids=lambda edge: f"{edge}"
)
async def test_both_ends_of_the_window_are_inside_it(
    store: Store, clock: TestClock, early: int | None, late: int | None
) -> None:
    now_ms = clock.now_ms()
    window = (None if early is None else now_ms + early, None if late is None else now_ms + late)
    assert await answer_to(store, append_of(b"a", window=window)) == Appended(now_ms, now_ms)


async def test_an_append_that_assumes_who_is_present_is_taken_only_if_it_is_so(store: Store, clock: TestClock) -> None:
    assert isinstance(await answer_to(store, append_of(b"a", present=())), Appended)
    head = Position(clock.now_ms(), 1)
    await store.lease(SESSION.id, LAPTOP, 30_000)
    await store.lease(SESSION.id, PHONE, 60_000)
    await store.lease("ses_other", TABLET, 60_000)
    for wrong in ((), (LAPTOP,), (LAPTOP, TABLET), (LAPTOP, PHONE, TABLET), (Presence("laptop", "bob"), PHONE)):
        answer = await answer_to(store, append_of(b"x", after=head, present=wrong))
        assert isinstance(answer, OthersPresent)
        assert (set(answer.present or ()), answer.now_ms) == ({LAPTOP, PHONE}, clock.now_ms())
    for right in ((LAPTOP, PHONE), (PHONE, LAPTOP)):
        head = await written(store, b"b", after=head)
        answer = await answer_to(store, append_of(b"c", after=head, present=right))
        assert isinstance(answer, Appended)
        head = Position(answer.ms, head.version + 1)
    clock.advance("30s")
    assert await answer_to(store, append_of(b"x", after=head, present=(LAPTOP, PHONE))) == OthersPresent(
        (PHONE,), clock.now_ms()
    )
    assert [entry.payload for entry in await log_of(store)] == [b"a", b"b", b"c", b"b", b"c"]


async def test_a_stale_writer_is_told_what_it_missed_whoever_is_present(store: Store) -> None:
    await written(store, b"a")
    assert isinstance(await answer_to(store, append_of(b"x", present=(LAPTOP,))), Conflict)


@pytest.mark.parametrize(("early", "late"), [(1, None), (None, -1), (1, 2), (-2, -1)], ids=lambda edge: f"{edge}")
async def test_outside_the_window_nothing_is_written_and_the_time_is_told(
    store: Store, clock: TestClock, early: int | None, late: int | None
) -> None:
    now_ms = clock.now_ms()
    window = (None if early is None else now_ms + early, None if late is None else now_ms + late)
    assert await answer_to(store, append_of(b"a", window=window)) == OutsideWindow(now_ms, now_ms)
    assert await store.info(SESSION) is None


async def test_the_window_counts_for_the_time_the_entries_bear_not_for_the_clock(
    store: Store, clock: TestClock
) -> None:
    head = await written(store, b"a")
    clock.set(head.ms - 1000)
    late = append_of(b"b", after=head, window=(None, head.ms - 1))
    assert await answer_to(store, late) == OutsideWindow(head.ms, head.ms - 1000)
    in_time = append_of(b"b", after=head, window=(head.ms, head.ms))
    assert await answer_to(store, in_time) == Appended(head.ms, head.ms - 1000)


async def test_a_stale_writer_outside_its_window_hears_of_the_conflict(store: Store) -> None:
    head = await written(store, b"a")
    answer = await answer_to(store, append_of(b"b", window=(head.ms + 1, None)))
    assert isinstance(answer, Conflict)


async def test_streams_of_different_kinds_and_ids_do_not_meet(store: Store, clock: TestClock) -> None:
    alike = PROJECT._replace(id=SESSION.id)
    await written(store, b"session")
    await written(store, b"project", key=alike)
    assert await log_of(store) == (Entry(clock.now_ms(), 1, b"session"),)
    assert await log_of(store, alike) == (Entry(clock.now_ms(), 1, b"project"),)


async def test_content_comes_back_beside_its_payload_also_in_a_conflict(store: Store) -> None:
    fields = ((b"a", "größer ✓".encode()), (b"b", None), (b"", b"\x00\xff"), (b"d", b"x" * 1_000_000))
    head = await written(store, *fields)
    expected = tuple(Entry(head.ms, version, *one) for version, one in enumerate(fields, 1))
    assert await log_of(store) == expected
    answer = await answer_to(store, append_of(b"late"))
    assert isinstance(answer, Conflict)
    assert answer.entries == expected


async def test_payloads_come_back_byte_for_byte(store: Store) -> None:
    payloads = (b"", b"\x00\xff", bytes(range(256)), "größer ✓".encode(), b"x" * 1_000_000)
    await written(store, *payloads)
    assert tuple(entry.payload for entry in await log_of(store)) == payloads


async def test_another_stream_read_along_shows_what_was_written_before(backend: Backend, clock: TestClock) -> None:
    store, other = await backend.open(), await backend.open()
    head = await written(other, b"old", key=PROJECT)
    await written(other, b"new", key=PROJECT, after=head)
    answer, beside = await append_to(store, append_of(b"a"), (PROJECT, head))
    assert answer == Appended(clock.now_ms(), clock.now_ms())
    assert beside == (Entry(clock.now_ms(), 2, b"new"),)


async def test_another_stream_read_along_comes_also_with_a_refused_append(store: Store) -> None:
    await written(store, b"a")
    await written(store, b"p", key=PROJECT)
    answer, beside = await append_to(store, append_of(b"late"), (PROJECT, START))
    assert isinstance(answer, Conflict)
    assert [entry.payload for entry in beside] == [b"p"]


async def test_of_many_writers_at_once_exactly_one_is_first(backend: Backend) -> None:
    stores = [await backend.open() for _ in range(4)]
    answers = await asyncio.gather(
        *(answer_to(store, append_of(b"%d" % number)) for store in stores for number in range(8))
    )
    assert len([one for one in answers if isinstance(one, Appended)]) == 1
    assert len([one for one in answers if isinstance(one, Conflict)]) == 31
    assert len(await log_of(stores[0])) == 1


async def test_by_the_servers_own_clock_answers_tell_its_time(live_backend: Backend) -> None:
    store = await live_backend.open()
    before_ms = await store.now_ms()
    answer = await answer_to(store, append_of(b"a"))
    after_ms = await store.now_ms()
    assert isinstance(answer, Appended)
    assert before_ms <= answer.ms == answer.now_ms <= after_ms
    assert store.clock.known
