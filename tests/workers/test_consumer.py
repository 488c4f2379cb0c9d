"""The loop of a worker: passes after wake-ups, at a time and after a pause; it outlives failures and stops cleanly."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from ledger import Ledger
from ledger.core.errors import StoreError
from ledger.stores.port import StreamKey, WakeUp
from ledger.stores.store import Listener
from ledger.testing import TestClock
from tests.support.backends import PARTITION_COUNT
from tests.support.waiting import wait_until_async
from workers.runtime import consumer as module
from workers.runtime.consumer import Consumer, Pause, every_append

NEVER = 3600.0


class Passes:
    """Records passes; the next ones fail with `errors`, and wait for `gate`."""

    def __init__(self, pause: Pause | None = None) -> None:
        self.pause = pause or Pause(NEVER)
        self.made: list[list[int]] = []
        self.errors: list[Exception] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.ended = 0

    async def __call__(self, woken: list[int]) -> Pause:
        self.made.append(woken)
        await self.gate.wait()
        if self.errors:
            raise self.errors.pop(0)
        self.ended += 1
        return self.pause

    async def wait_for(self, count: int) -> None:
        await wait_until_async(lambda: len(self.made) >= count, f"pass {count}")


@pytest.fixture
async def ledger(clock: TestClock) -> AsyncIterator[Ledger]:
    async with Ledger.connect("memory://", clock=clock, partitions=PARTITION_COUNT, entry_points=False) as ledger:
        yield ledger


def consumer_of(ledger: Ledger, passes: Passes, **options: Any) -> Consumer:
    return Consumer("cook", ledger, passes, retry_seconds=options.pop("retry_seconds", NEVER), **options)


@asynccontextmanager
async def running(consumer: Consumer) -> AsyncIterator[asyncio.Event]:
    stop = asyncio.Event()
    task = asyncio.create_task(consumer.run(stop))
    try:
        yield stop
    finally:
        stop.set()
        await task


def partition_of(ledger: Ledger, session: str) -> int:
    return StreamKey("session", session).partition(ledger.store.partition_count)


async def subscribed(caplog: pytest.LogCaptureFixture) -> None:
    await wait_until_async(lambda: "cook: subscribed to 8 partitions" in caplog.messages, "the subscription")


@pytest.fixture(autouse=True)
def everything_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "workers")


async def test_the_first_pass_needs_no_wake_up(ledger: Ledger) -> None:
    passes = Passes()
    async with running(consumer_of(ledger, passes)):
        await passes.wait_for(1)
    assert passes.made == [[]]


async def test_an_append_wakes_for_its_partition(ledger: Ledger, caplog: pytest.LogCaptureFixture) -> None:
    passes = Passes()
    async with running(consumer_of(ledger, passes, concerns=every_append)):
        await subscribed(caplog)
        before = len(passes.made)
        await ledger.session("ses_1")
        await wait_until_async(lambda: [partition_of(ledger, "ses_1")] in passes.made[before:], "the wake-up's pass")


async def test_only_appends_of_concern_wake(ledger: Ledger, caplog: pytest.LogCaptureFixture) -> None:
    passes, asked = Passes(), list[str]()

    def concerns(wake_up: WakeUp) -> bool:
        if wake_up.key.kind == "session":
            asked.append(wake_up.key.id)
        return wake_up.key.id == "ses_2"

    async with running(consumer_of(ledger, passes, concerns=concerns)):
        await subscribed(caplog)
        await ledger.session("ses_1")
        await ledger.session("ses_2")
        await wait_until_async(lambda: [partition_of(ledger, "ses_2")] in passes.made, "the wake-up's pass")
    assert asked == ["ses_1", "ses_2"]
    assert [partition_of(ledger, "ses_1")] not in passes.made


async def test_wake_ups_that_come_together_are_one_pass(ledger: Ledger) -> None:
    passes = Passes()
    consumer = consumer_of(ledger, passes)
    async with running(consumer):
        await passes.wait_for(1)
        for partition in (5, 3, 5, 1):
            consumer.wake(partition)
        await passes.wait_for(2)
    assert passes.made == [[], [1, 3, 5]]


async def test_a_wake_up_during_a_pass_is_not_lost(ledger: Ledger) -> None:
    passes = Passes()
    passes.gate.clear()
    consumer = consumer_of(ledger, passes)
    async with running(consumer):
        await passes.wait_for(1)
        consumer.wake(4)
        passes.gate.set()
        await passes.wait_for(2)
    assert passes.made == [[], [4]]


async def test_without_a_wake_up_the_next_pass_comes_after_the_pause(ledger: Ledger) -> None:
    passes = Passes(Pause(0.01))
    async with running(consumer_of(ledger, passes)):
        await passes.wait_for(3)
    assert set(map(tuple, passes.made)) == {()}


async def test_a_pass_comes_at_the_servers_time(ledger: Ledger, clock: TestClock) -> None:
    passes = Passes(Pause(NEVER, clock.now_ms() + 60_000))
    consumer = consumer_of(ledger, passes)
    async with running(consumer):
        await passes.wait_for(1)
        clock.advance("59s")
        consumer.wake(1)
        await passes.wait_for(2)
        passes.pause = Pause(NEVER)
        clock.advance("1s")
        await passes.wait_for(3)
    assert passes.made == [[], [1], []]


async def test_a_failed_pass_is_made_again_for_the_same_partitions_and_logged_once_an_outage(
    ledger: Ledger, caplog: pytest.LogCaptureFixture
) -> None:
    passes = Passes()
    consumer = consumer_of(ledger, passes, retry_seconds=0.01)
    async with running(consumer):
        await passes.wait_for(1)
        passes.errors = [StoreError("no server"), StoreError("no server yet")]
        consumer.wake(2)
        await wait_until_async(lambda: passes.ended == 2, "the pass after the outage")
        passes.errors = [StoreError("gone again")]
        consumer.wake()
        await wait_until_async(lambda: passes.ended == 3, "the pass after the second outage")
    assert passes.made == [[], [2], [2], [2], [], []]
    assert caplog.messages == [
        "cook: failed, trying again: no server",
        "cook: reconnected",
        "cook: failed, trying again: gone again",
        "cook: reconnected",
    ]


async def test_a_wake_up_ends_the_pause_after_a_failure(ledger: Ledger) -> None:
    passes = Passes()
    passes.errors = [StoreError("no server")]
    consumer = consumer_of(ledger, passes)
    async with running(consumer):
        await passes.wait_for(1)
        consumer.wake(7)
        await wait_until_async(lambda: passes.ended == 1, "the pass after the failure")


async def test_a_new_subscription_wakes_for_what_may_have_been_missed(
    ledger: Ledger, caplog: pytest.LogCaptureFixture
) -> None:
    passes = Passes()
    async with running(consumer_of(ledger, passes, concerns=every_append)):
        await subscribed(caplog)
        ledger.streams.gap(6)
        await wait_until_async(lambda: any(6 in woken for woken in passes.made), "the partition's pass")


async def test_a_subscription_that_fails_is_tried_again(
    ledger: Ledger, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    subscribe, left = ledger.store.subscribe, [3, 4]

    async def failing(partition: int, listener: Listener) -> None:
        if partition in left:
            left.remove(partition)
            raise StoreError("no server")
        await subscribe(partition, listener)

    monkeypatch.setattr(ledger.store, "subscribe", failing)
    async with running(consumer_of(ledger, Passes(), concerns=every_append, retry_seconds=0.01)):
        await subscribed(caplog)
    assert "cook: no wake-ups yet: no server" in caplog.messages


async def test_a_pass_in_progress_is_finished_before_it_stops(ledger: Ledger) -> None:
    passes, told = Passes(), list[str]()
    passes.gate.clear()
    consumer = consumer_of(ledger, passes, on_stop=lambda: told.append("stop"))
    async with running(consumer) as stop:
        await passes.wait_for(1)
        stop.set()
        await wait_until_async(lambda: told, "word of the stop")
        assert consumer.stopping
        assert passes.ended == 0
        passes.gate.set()
    assert (passes.ended, len(passes.made)) == (1, 1)


async def test_a_pass_that_does_not_end_is_given_up_with_a_warning(
    ledger: Ledger, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "STOP_SECONDS", 0.01)
    passes = Passes()
    passes.gate.clear()
    async with running(consumer_of(ledger, passes)) as stop:
        await passes.wait_for(1)
        stop.set()
    assert passes.ended == 0
    assert caplog.messages == ["cook: stopped in a pass; another worker or the next start goes on with it"]


async def test_a_fault_in_a_pass_is_raised_and_not_retried(ledger: Ledger) -> None:
    passes = Passes()
    passes.errors = [ValueError("a fault of ours")]
    with pytest.raises(ValueError, match="a fault of ours"):
        await consumer_of(ledger, passes).run(asyncio.Event())
    assert len(passes.made) == 1


async def test_a_cancelled_one_leaves_no_task_behind(ledger: Ledger) -> None:
    passes = Passes(Pause(NEVER, 2**50))
    before = asyncio.all_tasks()
    task = asyncio.create_task(consumer_of(ledger, passes, concerns=every_append).run(asyncio.Event()))
    await passes.wait_for(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await wait_until_async(lambda: asyncio.all_tasks() <= before, "its tasks to end")


async def test_another_one_goes_on_after_it(ledger: Ledger, caplog: pytest.LogCaptureFixture) -> None:
    first, second = Passes(), Passes()
    async with running(consumer_of(ledger, first, concerns=every_append)):
        await subscribed(caplog)
    made = len(first.made)
    caplog.clear()
    async with running(consumer_of(ledger, second, concerns=every_append)):
        await subscribed(caplog)
        await ledger.session("ses_1")
        await wait_until_async(lambda: any(partition_of(ledger, "ses_1") in woken for woken in second.made), "its pass")
    assert len(first.made) == made
