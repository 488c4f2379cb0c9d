"""Commands of one or several processes on one stream."""

from __future__ import annotations

import asyncio

import pytest

from ledger.core.errors import InDoubtError, InputError, StoreError
from ledger.core.limits import EVENT_BYTES, EVENTS_PER_APPEND_COUNT
from ledger.log.stream import Stream
from ledger.stores.store import Store
from ledger.testing import TestClock
from tests.support.backends import PROJECT, SESSION, Backend, log_of
from tests.support.tally import TESTER, Add, Claim, RecordingListener, Tally, Watched, add, tally
from tests.support.waiting import wait_until_async


async def two_processes(backend: Backend) -> tuple[Stream[Tally], Stream[Tally]]:
    return tally(await backend.open()), tally(await backend.open())


async def test_a_command_leaves_its_events_in_the_log_and_in_the_state(store: Store, clock: TestClock) -> None:
    stream = tally(store)
    done = await stream.submit(add("a", "b"))
    assert done.state == Tally(("a", "b"), version=2)
    assert [(one.actor, one.ms, one.version) for one in done.events] == [
        (TESTER, clock.now_ms(), 1),
        (TESTER, clock.now_ms(), 2),
    ]
    assert len({one.event_id for one in done.events}) == 2
    assert await tally(store).refresh() == done.state


async def test_each_command_is_told_the_events_that_it_made_itself(store: Store) -> None:
    stream = tally(store)
    dones = await asyncio.gather(*(stream.submit(add(*names)) for names in ("a", "bc", "", "d")))
    assert [[one.version for one in done.events] for done in dones] == [[1], [2, 3], [], [4]]


async def test_commands_that_come_together_leave_as_one_append(store: Store) -> None:
    watched = Watched(store)
    stream = tally(watched.as_store)
    await asyncio.gather(*(stream.submit(add(f"{number}")) for number in range(50)))
    assert [len(append.payloads) for append in watched.appends] == [50]
    assert (await tally(store).refresh()).names == tuple(f"{number}" for number in range(50))


async def test_commands_that_come_during_an_append_leave_together_after_it(store: Store) -> None:
    watched = Watched(store)
    stream = tally(watched.as_store)
    later: list[asyncio.Task[object]] = []

    async def more_commands_come() -> None:
        later.extend(asyncio.create_task(stream.submit(add(f"{number}"))) for number in range(20))

    watched.before["append"] = more_commands_come
    await stream.submit(add("first"))
    await asyncio.gather(*later)
    assert [len(append.payloads) for append in watched.appends] == [1, 20]


async def test_more_commands_than_fit_into_one_append_leave_in_several_in_order(store: Store) -> None:
    watched = Watched(store)
    stream = tally(watched.as_store)
    names = [f"{number}" for number in range(EVENTS_PER_APPEND_COUNT + 10)]
    await asyncio.gather(*(stream.submit(add(name)) for name in names))
    assert [len(append.payloads) for append in watched.appends] == [EVENTS_PER_APPEND_COUNT, 10]
    assert (await tally(store).refresh()).names == tuple(names)


async def test_later_commands_of_a_batch_see_what_earlier_ones_decided(store: Store) -> None:
    stream = tally(store)
    outcomes = await asyncio.gather(
        stream.submit(Claim("seat", "ann")),
        stream.submit(Claim("seat", "ben")),
        stream.submit(Claim("seat", "ann")),
        return_exceptions=True,
    )
    assert [type(one).__name__ for one in outcomes] == ["Done", "InputError", "Done"]
    assert (await tally(store).refresh()).names == ("seat=ann",)


async def test_a_conflict_is_decided_again_on_what_the_other_wrote(backend: Backend) -> None:
    ours, theirs = await two_processes(backend)
    await ours.refresh()
    await theirs.submit(Claim("seat", "them"))
    with pytest.raises(InputError, match="`seat` is taken"):
        await ours.submit(Claim("seat", "us"))
    assert ours.state == theirs.state == Tally(("seat=them",), version=1)


async def test_two_processes_at_once_lose_no_command_and_decide_each_claim_once(backend: Backend) -> None:
    streams = await two_processes(backend)
    outcomes = await asyncio.gather(
        *(stream.submit(Claim(f"{number}", f"{who}")) for number in range(40) for who, stream in enumerate(streams)),
        return_exceptions=True,
    )
    refused = [one for one in outcomes if isinstance(one, InputError)]
    assert len(refused) == 40
    state = await streams[0].refresh()
    assert sorted(name.partition("=")[0] for name in state.names) == sorted(f"{number}" for number in range(40))
    assert await streams[1].refresh() == state == await tally(await backend.open()).refresh()


async def test_a_long_tail_of_others_is_folded_before_the_command_is_decided_again(backend: Backend) -> None:
    ours, theirs = await two_processes(backend)
    await ours.refresh()
    for first in range(0, 1_300, 325):
        await theirs.submit(add(*(f"{first + number}" for number in range(325))))
    done = await ours.submit(add("last"))
    assert done.events[0].version == 1_301
    assert done.state.names[-2:] == ("1299", "last")


async def test_a_refusal_is_told_only_after_what_others_wrote_was_read(backend: Backend) -> None:
    ours, theirs = await two_processes(backend)
    await ours.submit(Claim("seat", "us"))
    with pytest.raises(InputError):
        await ours.submit(Claim("seat", "ours too"))
    await theirs.submit(add("theirs"))
    with pytest.raises(InputError):
        await ours.submit(Claim("seat", "ours too"))
    assert ours.state.names == ("seat=us", "theirs")


async def test_nothing_to_do_is_answered_only_after_what_others_wrote_was_read(backend: Backend) -> None:
    ours, theirs = await two_processes(backend)
    await ours.submit(Claim("seat", "us"))
    await theirs.submit(add("theirs"))
    done = await ours.submit(Claim("seat", "us"))
    assert done.events == ()
    assert done.state == Tally(("seat=us", "theirs"), version=2)


async def test_a_refusal_beside_other_commands_does_not_stop_them(store: Store) -> None:
    stream = tally(store)
    await stream.submit(Claim("seat", "ann"))
    outcomes = await asyncio.gather(
        stream.submit(add("a")), stream.submit(Claim("seat", "ben")), stream.submit(add("b")), return_exceptions=True
    )
    assert [isinstance(one, InputError) for one in outcomes] == [False, True, False]
    assert stream.state.names == ("seat=ann", "a", "b")


async def test_an_event_that_is_too_large_fails_its_own_command_only(store: Store) -> None:
    stream = tally(store)
    outcomes = await asyncio.gather(
        stream.submit(add("a")),
        stream.submit(Add(("b", "c"), text="x" * EVENT_BYTES)),
        stream.submit(add("d")),
        return_exceptions=True,
    )
    assert [isinstance(one, InputError) for one in outcomes] == [False, True, False]
    assert (await tally(store).refresh()).names == ("a", "d")


async def test_a_cancelled_caller_takes_nobody_else_along(store: Store) -> None:
    watched = Watched(store)
    stream = tally(watched.as_store)
    callers = [asyncio.create_task(stream.submit(add(f"{number}"))) for number in range(3)]

    async def the_second_is_cancelled() -> None:
        callers[1].cancel()

    watched.before["append"] = the_second_is_cancelled
    outcomes = await asyncio.gather(*callers, return_exceptions=True)
    assert [isinstance(one, asyncio.CancelledError) for one in outcomes] == [False, True, False]
    assert (await stream.refresh()).names == ("0", "1", "2")


async def test_a_command_whose_caller_is_gone_before_it_was_looked_at_is_dropped(store: Store) -> None:
    stream = tally(store)
    callers = [asyncio.create_task(stream.submit(add(f"{number}"))) for number in range(3)]

    async def leave_before_the_commands_are_looked_at() -> None:
        callers[1].cancel()

    await asyncio.gather(*callers, leave_before_the_commands_are_looked_at(), return_exceptions=True)
    assert (await stream.refresh()).names == ("0", "2")


async def test_an_error_of_the_store_reaches_every_command_of_the_batch_and_the_next_one_goes_on(
    store: Store,
) -> None:
    watched = Watched(store)
    stream = tally(watched.as_store)

    async def fails() -> None:
        raise StoreError("the ledger's server cannot be reached")

    watched.before["append"] = fails
    outcomes = await asyncio.gather(stream.submit(add("a")), stream.submit(add("b")), return_exceptions=True)
    assert [type(one) for one in outcomes] == [StoreError, StoreError]
    assert (await stream.submit(add("c"))).state == Tally(("c",), version=1)


async def test_after_an_append_in_doubt_the_stream_is_folded_again_and_finds_it(store: Store) -> None:
    watched = Watched(store)
    stream = tally(watched.as_store)
    await stream.submit(add("a"))

    async def the_answer_is_lost() -> None:
        raise InDoubtError("no answer came")

    watched.after["append"] = the_answer_is_lost
    with pytest.raises(InDoubtError):
        await stream.submit(add("b"))
    assert (await stream.submit(add("c"))).state == Tally(("a", "b", "c"), version=3)


async def test_a_companion_is_read_with_the_append(backend: Backend) -> None:
    store, other = await backend.open(), await backend.open()
    stream, companion = tally(store), tally(store, PROJECT)
    await companion.refresh()
    await tally(other, PROJECT).submit(add("grant"))
    await stream.submit(add("ask"), companion)
    assert companion.state == Tally(("grant",), version=1)


async def test_a_companion_that_fell_far_behind_is_read_to_its_end(backend: Backend) -> None:
    store, other = await backend.open(), await backend.open()
    stream, companion, theirs = tally(store), tally(store, PROJECT), tally(other, PROJECT)
    await companion.refresh()
    for _ in range(3):
        await theirs.submit(add(*["grant"] * 400))
    await stream.submit(add("ask"), companion)
    assert companion.state.version == 1_200


async def test_a_companion_that_was_never_read_is_read(backend: Backend) -> None:
    store, other = await backend.open(), await backend.open()
    await tally(other, PROJECT).submit(add("grant"))
    companion = tally(store, PROJECT)
    await tally(store).submit(add("ask"), companion)
    assert companion.state.names == ("grant",)


async def test_a_window_that_cannot_be_met_gives_up_with_a_clear_error(store: Store, clock: TestClock) -> None:
    with pytest.raises(StoreError, match=r"stream `session:ses_1` .* try again"):
        await tally(store).submit(Add(("a",), not_before_ms=clock.now_ms() + 1))
    assert await log_of(store) == ()


async def test_reading_a_stream_that_is_not_there_makes_none(store: Store) -> None:
    assert await tally(store).refresh() == Tally()
    assert await store.info(SESSION) is None


async def test_observers_hear_each_event_once_in_order_and_no_more_after_they_left(backend: Backend) -> None:
    ours, theirs = await two_processes(backend)
    await ours.refresh()
    observed: list[int | None] = []
    leave = ours.observe(lambda recorded: observed.append(recorded.version if recorded else None))
    await theirs.submit(add("a", "b"))
    await ours.submit(add("c"))
    leave()
    await ours.submit(add("d"))
    assert observed == [1, 2, 3]


async def test_waking_brings_what_others_write_without_a_read(backend: Backend) -> None:
    store, other = await backend.open(), await backend.open()
    watched = Watched(store)
    ours = tally(watched.as_store)
    await ours.refresh()
    listener = RecordingListener(ours)
    await store.subscribe(SESSION.partition(store.partition_count), listener)
    await ours.refresh()
    reads = watched.reads
    theirs = tally(other)
    await theirs.submit(add("a", "b"))
    await theirs.submit(add("c"))
    await wait_until_async(lambda: ours.state.version == 3, "version 3 in our fold")
    assert ours.state == theirs.state
    assert watched.reads == reads


async def test_payloads_of_somebody_elses_making_are_not_taken_for_own_events(store: Store) -> None:
    """The search for the own event id after a conflict decodes entries; a mere mention of the id is not the event."""
    stream = tally(store)
    await stream.submit(add("a"))
    watched = Watched(store)
    ours, theirs = tally(watched.as_store), tally(store)
    await ours.refresh()

    async def another_quotes_our_event() -> None:
        quoted = watched.appends[-1].payloads[0][0].decode()
        await theirs.submit(Add(("quote",), text=quoted))

    watched.before["append"] = another_quotes_our_event
    done = await ours.submit(add("b"))
    assert done.state.names == ("a", "quote", "b")
