"""Events between a stream's steps: wake-ups that come while it reads, decides or appends."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from ledger.core.errors import InDoubtError, InputError
from ledger.core.grants import Recorded
from ledger.log.plans import AppendPlan
from ledger.log.stream import Stream
from ledger.log.tail import read_entry
from ledger.stores.port import START, WakeUp
from ledger.stores.store import Store, append_to
from tests.support.backends import SESSION, Backend, log_of
from tests.support.tally import Claim, RecordingListener, Tally, TallyFold, Watched, add, tally
from tests.support.waiting import wait_until_async


class Processes:
    """Our stream on a store that can be interrupted, and another process's stream on the same log."""

    def __init__(self, store: Store, other: Store) -> None:
        self.other = other
        self.watched = Watched(store)
        self.ours = tally(self.watched.as_store)
        self.theirs = tally(other)

    async def wake(self, *, inline: bool = True) -> None:
        """Deliver the other's last entries to our stream now, as a wake-up would."""
        log = await log_of(self.other)
        self.ours.woken(WakeUp(SESSION, log[-1].position, log[-1:] if inline else ()))

    async def reach(self, version: int) -> None:
        await wait_until_async(lambda: self.ours.state.version == version, f"version {version} in the fold")


@pytest.fixture
async def processes(backend: Backend) -> Processes:
    return Processes(await backend.open(), await backend.open())


def others_write(processes: Processes, *, inline: bool = True) -> Callable[[], Awaitable[None]]:
    async def step() -> None:
        await processes.theirs.submit(add("theirs"))
        await processes.wake(inline=inline)

    return step


@pytest.mark.parametrize("inline", [True, False], ids=["inline", "by id"])
async def test_a_wake_up_during_the_first_read_is_not_lost(processes: Processes, *, inline: bool) -> None:
    processes.watched.after["open"] = others_write(processes, inline=inline)
    await processes.ours.refresh()
    await processes.reach(1)


@pytest.mark.parametrize("inline", [True, False], ids=["inline", "by id"])
@pytest.mark.parametrize("moment", ["before", "after"])
async def test_a_wake_up_during_an_own_append_is_not_lost(processes: Processes, moment: str, *, inline: bool) -> None:
    await processes.ours.refresh()
    steps = processes.watched.before if moment == "before" else processes.watched.after
    steps["append"] = others_write(processes, inline=inline)
    await processes.ours.submit(add("ours"))
    await processes.reach(2)


@pytest.mark.parametrize("inline", [True, False], ids=["inline", "by id"])
async def test_a_wake_up_during_a_read_of_the_tail_is_not_lost(processes: Processes, *, inline: bool) -> None:
    await processes.ours.submit(add("ours"))
    processes.watched.after["read"] = others_write(processes, inline=inline)
    await processes.ours.refresh()
    await processes.reach(2)


async def test_a_wake_up_for_a_stream_that_nobody_reads_reads_nothing(processes: Processes) -> None:
    await processes.theirs.submit(add("theirs"))
    await processes.wake()
    assert processes.watched.reads == 0
    assert not processes.ours.folded


async def test_the_same_wake_up_twice_counts_once(processes: Processes) -> None:
    await processes.ours.refresh()
    await processes.theirs.submit(add("theirs"))
    await processes.wake()
    await processes.wake()
    assert processes.ours.state == Tally(("theirs",), version=1)


async def test_the_own_wake_up_before_the_own_answer_harms_nothing(processes: Processes) -> None:
    await processes.ours.refresh()
    processes.watched.after["append"] = processes.wake
    done = await processes.ours.submit(add("ours"))
    assert done.state == processes.ours.state == Tally(("ours",), version=1)
    assert done.events[0].version == 1


async def test_the_own_wake_up_is_told_once_and_as_it_stands_in_the_log(processes: Processes) -> None:
    await processes.ours.refresh()
    told: list[Recorded | None] = []
    processes.ours.observe(told.append)

    async def wake_before_the_answer() -> None:
        await processes.wake()
        assert len(told) == 1

    processes.watched.after["append"] = wake_before_the_answer
    done = await processes.ours.submit(add("ours"))
    await processes.wake()
    log = await log_of(processes.other)
    assert told == list(done.events) == [read_entry(SESSION, log[0], START, b"", None)]


async def test_the_own_event_is_found_although_a_wake_up_brought_it_first(processes: Processes) -> None:
    """The answer is lost, the own wake-up comes, and the repeated append conflicts with itself."""
    await processes.ours.refresh()

    async def sent_once_already() -> None:
        await append_to(processes.watched._store, processes.watched.appends[-1])
        await processes.wake()

    processes.watched.before["append"] = sent_once_already
    done = await processes.ours.submit(add("ours"))
    assert [one.version for one in done.events] == [1]
    assert len(await log_of(processes.watched.as_store)) == 1


async def test_the_own_event_is_found_although_others_wrote_after_it(processes: Processes) -> None:
    await processes.ours.refresh()

    async def sent_once_already() -> None:
        await append_to(processes.watched._store, processes.watched.appends[-1])
        for number in range(300):
            await processes.theirs.submit(add(f"{number}"))

    processes.watched.before["append"] = sent_once_already
    done = await processes.ours.submit(add("ours"))
    assert [(one.version, one.ms) for one in done.events] == [(1, (await log_of(processes.watched.as_store))[0].ms)]
    assert done.state.version == 301
    assert done.state.names.count("ours") == 1


class SlowToSettle(TallyFold):
    """A fold that reads presence from the store before it decides, as a session's does when something is due."""

    step: Callable[[], Awaitable[None]] | None = None

    async def settle(self, state: Tally, now_ms: int) -> AppendPlan:
        step, self.step = self.step, None
        if step is not None:
            await step()
        return AppendPlan()

    def next_due_ms(self, state: Tally) -> int | None:
        return None if self.step is None else 0


async def test_what_a_wake_up_brings_while_it_is_looked_who_is_there_is_decided_upon(backend: Backend) -> None:
    """Otherwise the command would be decided on the state before, and appended after an event it never saw."""
    store = await backend.open()
    fold = SlowToSettle()
    ours, theirs = Stream(store, SESSION, fold), tally(await backend.open())
    await ours.refresh()

    async def others_claim_the_seat() -> None:
        await theirs.submit(Claim("seat", "them"))
        log = await log_of(store)
        ours.woken(WakeUp(SESSION, log[-1].position, log))

    fold.step = others_claim_the_seat
    with pytest.raises(InputError, match="`seat` is taken"):
        await ours.submit(Claim("seat", "us"))
    assert (await theirs.refresh()).names == ("seat=them",)


async def test_a_wake_up_that_leaves_a_gap_makes_the_stream_read(processes: Processes) -> None:
    await processes.ours.refresh()
    for number in range(3):
        await processes.theirs.submit(add(f"{number}"))
    await processes.wake()
    await processes.reach(3)


async def test_a_state_that_was_folded_is_never_seen_half_folded_or_empty_again(processes: Processes) -> None:
    """While a stream is folded again after an append in doubt, waiters read the last known state."""
    for first in range(3):
        await processes.theirs.submit(add(*[f"{first}"] * 500))
    ours = processes.ours
    await ours.refresh()

    async def the_answer_is_lost() -> None:
        raise InDoubtError("no answer came")

    seen: list[int] = []

    async def look() -> None:
        seen.append(ours.state.version)

    processes.watched.before["append"] = the_answer_is_lost
    with pytest.raises(InDoubtError):
        await ours.submit(add("a"))
    seen.append(ours.state.version)
    observed: list[object] = []
    ours.observe(observed.append)
    processes.watched.after |= {"open": look, "read": look}
    await ours.refresh()
    assert seen == [1_500, 1_500, 1_500]
    assert observed == [None]


async def test_waiters_on_two_streams_of_one_process_hear_of_each_other(backend: Backend) -> None:
    store = await backend.open()
    one, other = tally(store), tally(store)
    await store.subscribe(SESSION.partition(store.partition_count), RecordingListener(one, other))
    await asyncio.gather(one.refresh(), other.refresh())
    await one.submit(add("a"))
    await wait_until_async(lambda: other.state.names == ("a",), "the other fold")
