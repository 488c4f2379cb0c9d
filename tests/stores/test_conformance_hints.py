"""Deadlines and leases: hints that carry no truth, the same on every store."""

from __future__ import annotations

import asyncio

import pytest

from ledger.core.events import Presence
from ledger.stores.port import NOTHING_DUE, START, Due, Place, Position, StreamKey, WorkPlace
from ledger.stores.store import Store
from ledger.testing import TestClock
from tests.support.backends import SESSION, Backend, answer_to, append_of, written
from tests.support.waiting import wait_until_async

LAPTOP = Presence("cli_1", "laptop")
PHONE = Presence("cli_2", "phone")
NAMED_BY_NOBODY = Presence("cli_3", "")

ANN, BOB = WorkPlace("ann"), WorkPlace("bob")


async def test_nothing_is_due_in_the_beginning(store: Store) -> None:
    assert await store.due(None, 10) == []
    assert await store.due_of([SESSION.id]) == [NOTHING_DUE]
    assert await store.due_of([]) == []


async def test_an_absolute_deadline_is_kept_as_it_is(store: Store, clock: TestClock) -> None:
    at_ms = clock.now_ms() + 60_000
    await written(store, b"a", due=Due(at_ms))
    assert await store.due(None, 10) == [(SESSION.id, at_ms)]
    assert await store.due_of(["ses_unknown", SESSION.id]) == [NOTHING_DUE, at_ms]


async def test_a_relative_deadline_counts_from_the_time_the_entries_bear(store: Store, clock: TestClock) -> None:
    head = await written(store, b"a")
    clock.set(head.ms - 500)
    await written(store, b"b", after=head, due=Due(60_000, relative=True))
    assert await store.due(None, 10) == [(SESSION.id, head.ms + 60_000)]


async def test_what_never_expires_is_listed_but_has_no_time(store: Store, clock: TestClock) -> None:
    await written(store, b"a", due=Due(None))
    assert await store.due(None, 10) == [(SESSION.id, None)]
    assert await store.due(clock.now_ms() + 10**12, 10) == []
    assert await store.due_of([SESSION.id]) == [None]


async def test_an_append_without_a_word_on_deadlines_leaves_the_hint(store: Store, clock: TestClock) -> None:
    head = await written(store, b"a", due=Due(clock.now_ms() + 5))
    await written(store, b"b", after=head)
    assert await store.due(None, 10) == [(SESSION.id, clock.now_ms() + 5)]


async def test_a_later_append_replaces_or_removes_the_hint(store: Store, clock: TestClock) -> None:
    head = await written(store, b"a", due=Due(clock.now_ms() + 5))
    head = await written(store, b"b", after=head, due=Due(9, relative=True))
    assert await store.due(None, 10) == [(SESSION.id, clock.now_ms() + 9)]
    await written(store, b"c", after=head, due=NOTHING_DUE)
    assert await store.due(None, 10) == []


async def test_a_refused_append_leaves_the_hint(store: Store, clock: TestClock) -> None:
    await written(store, b"a", due=Due(clock.now_ms() + 5))
    await answer_to(store, append_of(b"late", after=START, due=NOTHING_DUE))
    await answer_to(store, append_of(b"ahead", after=Position(1, 9), due=Due(1)))
    assert await store.due(None, 10) == [(SESSION.id, clock.now_ms() + 5)]


async def test_deadlines_come_earliest_first_up_to_a_time_and_a_count(store: Store, clock: TestClock) -> None:
    now_ms = clock.now_ms()
    for number in (3, 1, 4, 2, 5):
        await written(store, b"x", key=StreamKey("session", f"ses_{number}"), due=Due(now_ms + number))
    await written(store, b"x", key=StreamKey("session", "ses_never"), due=Due(None))
    assert await store.due(now_ms + 3, 10) == [(f"ses_{number}", now_ms + number) for number in (1, 2, 3)]
    assert await store.due(now_ms + 5, 2) == [("ses_1", now_ms + 1), ("ses_2", now_ms + 2)]
    assert [session for session, _ in await store.due(None, 10)] == [
        *(f"ses_{number}" for number in range(1, 6)), "ses_never"
    ]  # fmt: skip
    assert await store.due_of(["ses_never", "ses_4"]) == [None, now_ms + 4]


async def test_deadlines_can_be_asked_of_some_partitions_only(store: Store, clock: TestClock) -> None:
    at = {f"ses_{number}": clock.now_ms() + number for number in range(20)}
    for session, at_ms in at.items():
        await written(store, b"x", key=StreamKey("session", session), due=Due(at_ms))
    home = {session: StreamKey("session", session).partition(store.partition_count) for session in at}
    wanted = [home["ses_0"], home["ses_1"]]
    expected = [(session, at_ms) for session, at_ms in at.items() if home[session] in wanted]
    assert await store.due(None, 20, wanted) == expected
    assert await store.due(None, 1, wanted) == expected[:1]
    assert await store.due(None, 20, []) == []


@pytest.mark.parametrize("seen_ms", [1_000, None])
@pytest.mark.parametrize("to", [Due(2_000), Due(None), NOTHING_DUE], ids=["time", "never", "nothing"])
async def test_a_deadline_is_corrected_if_it_still_is_what_was_seen(
    store: Store, seen_ms: int | None, to: Due | str
) -> None:
    at = await written(store, b"a", due=Due(seen_ms))
    await store.correct_due(SESSION.id, seen_ms, to, at=at)
    expected = [(SESSION.id, to.ms)] if isinstance(to, Due) else []
    assert await store.due(None, 10) == expected


@pytest.mark.parametrize("seen_ms", [1_001, None])
async def test_a_deadline_that_somebody_changed_meanwhile_is_not_corrected(store: Store, seen_ms: int | None) -> None:
    at = await written(store, b"a", due=Due(1_000))
    await store.correct_due(SESSION.id, seen_ms, NOTHING_DUE, at=at)
    assert await store.due(None, 10) == [(SESSION.id, 1_000)]


@pytest.mark.parametrize("change", [(0, -1), (0, 1), (1, 0)], ids=["version before", "version after", "time"])
async def test_a_deadline_is_not_corrected_by_who_saw_another_end_of_the_stream(
    store: Store, change: tuple[int, int]
) -> None:
    at = await written(store, b"a", due=Due(1_000))
    elsewhere = Position(at.ms + change[0], at.version + change[1])
    await store.correct_due(SESSION.id, 1_000, NOTHING_DUE, at=elsewhere)
    assert await store.due(None, 10) == [(SESSION.id, 1_000)]


@pytest.mark.parametrize("to", [Due(2_000), Due(None), NOTHING_DUE], ids=["time", "never", "nothing"])
async def test_a_deadline_that_the_index_lacks_is_added_by_who_saw_that(store: Store, to: Due | str) -> None:
    at = await written(store, b"a")
    await store.correct_due(SESSION.id, NOTHING_DUE, to, at=Position(at.ms, at.version + 1))
    assert await store.due(None, 10) == []
    await store.correct_due(SESSION.id, NOTHING_DUE, to, at=at)
    assert await store.due(None, 10) == ([(SESSION.id, to.ms)] if isinstance(to, Due) else [])


@pytest.mark.parametrize("has_ms", [1_000, 0, None])
async def test_a_deadline_that_somebody_added_meanwhile_stays(store: Store, has_ms: int | None) -> None:
    at = await written(store, b"a", due=Due(has_ms))
    await store.correct_due(SESSION.id, NOTHING_DUE, Due(2_000), at=at)
    assert await store.due(None, 10) == [(SESSION.id, has_ms)]


@pytest.mark.parametrize("seen_ms", [1_000, None])
async def test_a_deadline_that_is_gone_is_not_brought_back(store: Store, seen_ms: int | None) -> None:
    await store.correct_due(SESSION.id, seen_ms, Due(2_000), at=START)
    assert await store.due(None, 10) == []


async def here(store: Store, place: Place) -> tuple[Presence, ...]:
    return (await store.leases([place]))[0]


@pytest.mark.parametrize("place", ["ses_1", None], ids=["session", "inbox"])
async def test_a_lease_counts_for_every_process_until_it_is_dropped(backend: Backend, place: Place) -> None:
    one, other = await backend.open(), await backend.open()
    await one.lease(place, LAPTOP, 30_000)
    await one.lease(place, PHONE, 30_000)
    await one.lease(place, NAMED_BY_NOBODY, 30_000)
    assert set(await here(other, place)) == {LAPTOP, PHONE, NAMED_BY_NOBODY}
    await other.lease(place, Presence(PHONE.client_id, ""), 0)
    await other.lease(place, Presence("cli_unknown", ""), 0)
    assert set(await here(one, place)) == {LAPTOP, NAMED_BY_NOBODY}


async def test_a_lease_of_one_session_says_nothing_of_another_nor_of_the_inbox(store: Store) -> None:
    await store.lease("ses_1", LAPTOP, 30_000)
    assert await here(store, "ses_2") == ()
    assert await here(store, None) == ()
    await store.lease(None, Presence(LAPTOP.client_id, ""), 0)
    assert await here(store, "ses_1") == (LAPTOP,)


async def test_a_lease_ends_by_the_servers_clock_and_a_renewal_prolongs_it(store: Store, clock: TestClock) -> None:
    await store.lease("ses_1", LAPTOP, 30_000)
    clock.advance(20_000)
    await store.lease("ses_1", PHONE, 30_000)
    clock.advance(9_999)
    assert set(await here(store, "ses_1")) == {LAPTOP, PHONE}
    clock.advance(1)
    assert await here(store, "ses_1") == (PHONE,)
    await store.lease("ses_1", LAPTOP, 30_000)
    clock.advance(20_000)
    assert await here(store, "ses_1") == (LAPTOP,)


async def test_a_client_that_changes_its_name_is_still_one_client(store: Store) -> None:
    await store.lease("ses_1", LAPTOP, 30_000)
    renamed = Presence(LAPTOP.client_id, "desk")
    await store.lease("ses_1", renamed, 30_000)
    assert await here(store, "ses_1") == (renamed,)


async def test_a_short_lease_does_not_end_a_long_one(live_backend: Backend) -> None:
    store = await live_backend.open()
    await store.lease("ses_1", LAPTOP, 60_000)
    await store.lease("ses_1", PHONE, 1)
    begun_ms = await store.now_ms()

    async def some_time_has_passed() -> bool:
        return await store.now_ms() > begun_ms + 10

    await wait_until_async(some_time_has_passed, "10 ms of the server's clock")
    assert await here(store, "ses_1") == (LAPTOP,)


async def test_a_turn_is_one_holders_until_it_is_ended(backend: Backend) -> None:
    one, other = await backend.open(), await backend.open()
    assert await one.lease(ANN, LAPTOP, 30_000, alone=True)
    assert await one.lease(ANN, LAPTOP, 30_000, alone=True)
    assert not await other.lease(ANN, PHONE, 30_000, alone=True)
    assert await other.lease(BOB, PHONE, 30_000, alone=True)
    await other.lease(ANN, PHONE, 0)
    assert not await other.lease(ANN, PHONE, 30_000, alone=True)
    await one.lease(ANN, LAPTOP, 0)
    assert await other.lease(ANN, PHONE, 30_000, alone=True)


async def test_a_turn_that_nobody_prolongs_ends(backend: Backend, clock: TestClock) -> None:
    one, other = await backend.open(), await backend.open()
    assert await one.lease(ANN, LAPTOP, 50, alone=True)
    clock.advance(50)
    await wait_until_async(lambda: other.lease(ANN, PHONE, 30_000, alone=True), "the turn to end")


async def test_everybody_can_tell_which_turns_are_taken(backend: Backend, clock: TestClock) -> None:
    one, other = await backend.open(), await backend.open()
    assert await one.lease(ANN, LAPTOP, 30_000, alone=True)
    assert await one.lease(BOB, LAPTOP, 50, alone=True)
    carl = WorkPlace("carl")
    assert [await store.leases([ANN, carl]) for store in (one, other)] == [[(LAPTOP,), ()]] * 2
    assert await other.leases([]) == []
    clock.advance(50)

    async def only_ann() -> bool:
        return await other.leases([ANN, BOB]) == [(LAPTOP,), ()]

    await wait_until_async(only_ann, "the turn to end")


async def test_of_all_who_want_a_turn_at_once_one_has_it(backend: Backend) -> None:
    stores = [await backend.open() for _ in range(4)]
    clients = [Presence(f"cli_{number}", "") for number in range(16)]
    had = await asyncio.gather(
        *(stores[number % 4].lease(ANN, one, 30_000, alone=True) for number, one in enumerate(clients))
    )
    assert had.count(True) == 1
