"""History read from marks equals history read from the beginning, also when the history has been replaced."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from ledger import Ledger
from ledger.core.errors import InputError, LedgerError, UnknownSessionError
from ledger.core.times import format_time
from ledger.log import history
from ledger.log.history import FOLD_EVERY_VERSIONS, HistoryCache
from ledger.log.tail import read_folds
from ledger.stores.port import StreamKey
from ledger.testing import TestClock

KEY = StreamKey("session", "ses_1")
ASKS = 3 * FOLD_EVERY_VERSIONS


@pytest.fixture
async def ledger(clock: TestClock) -> AsyncIterator[Ledger]:
    async with Ledger.connect("memory://", clock=clock) as ledger:
        yield ledger


async def fill(ledger: Ledger, clock: TestClock) -> HistoryCache:
    session = await ledger.session("ses_1", rules=[{"permission": "bash", "pattern": "*", "action": "allow"}])
    for index in range(ASKS):
        clock.advance("1s")
        await session.submit("bash", [f"ls {index}"])
    return HistoryCache(ledger.store)


@pytest.mark.slow
async def test_the_state_at_any_version_is_that_of_a_fold_from_the_beginning(ledger: Ledger, clock: TestClock) -> None:
    cache = await fill(ledger, clock)
    for version in (ASKS, 1, FOLD_EVERY_VERSIONS, FOLD_EVERY_VERSIONS + 1, 2 * FOLD_EVERY_VERSIONS - 1, 7):
        assert await cache.state_at(KEY, version=version) == await ledger.state_at("ses_1", version)
    assert await cache.state_at(KEY) == await ledger.state_at("ses_1")


async def test_the_state_at_a_time_is_after_the_last_event_until_then(ledger: Ledger, clock: TestClock) -> None:
    cache = await fill(ledger, clock)
    await cache.state_at(KEY)
    wanted = await ledger.state_at("ses_1", 2 * FOLD_EVERY_VERSIONS + 5)
    assert await cache.state_at(KEY, ms=wanted.ms) == wanted
    assert await cache.state_at(KEY, ms=wanted.ms + 999) == wanted
    with pytest.raises(UnknownSessionError):
        await cache.state_at(KEY, ms=1)


async def test_a_moment_without_a_state_is_refused_in_the_words_of_a_fold_from_the_beginning(
    ledger: Ledger, clock: TestClock
) -> None:
    cache = await fill(ledger, clock)
    early = format_time(1)
    for warm in (False, True):
        for at, bound in ((early, {"ms": 1}), (0, {"version": 0}), (ASKS + 2, {"version": ASKS + 2})):
            with pytest.raises(LedgerError) as wanted:
                await ledger.state_at("ses_1", at)
            with pytest.raises(LedgerError) as refused:
                await cache.state_at(KEY, **bound)
            assert refused.value.as_json() == wanted.value.as_json(), warm
        await cache.state_at(KEY)
    with pytest.raises(UnknownSessionError, match=r"^there is no session `other`$"):
        await cache.state_at(StreamKey("session", "other"))


async def test_a_version_that_is_not_there_is_refused(ledger: Ledger, clock: TestClock) -> None:
    cache = await fill(ledger, clock)
    with pytest.raises(InputError, match=f"session `ses_1` has {ASKS + 1} versions, not {ASKS + 2}"):
        await cache.state_at(KEY, version=ASKS + 2)


async def test_pages_are_the_events_after_a_version(ledger: Ledger, clock: TestClock) -> None:
    cache = await fill(ledger, clock)
    session = await ledger.session("ses_1")
    everything = [event async for event in session.events(follow_on=False)]
    for after in (0, FOLD_EVERY_VERSIONS - 1, FOLD_EVERY_VERSIONS, 2 * FOLD_EVERY_VERSIONS + 3, ASKS):
        assert await cache.page(KEY, after, 10) == everything[after : after + 10]


@pytest.mark.slow
async def test_marks_of_another_history_are_thrown_away(ledger: Ledger, clock: TestClock) -> None:
    cache = await fill(ledger, clock)
    await cache.state_at(KEY)
    async with Ledger.connect("memory://", clock=clock) as other:
        replaced = await fill(other, clock)
        marks = cache._marks.get(KEY)
        assert marks is not None
        replaced._marks.put(KEY, marks, marks.size_bytes)
        assert await replaced.state_at(KEY) == await other.state_at("ses_1")


async def test_only_the_streams_of_lately_are_remembered(ledger: Ledger, clock: TestClock) -> None:
    await fill(ledger, clock)
    cache = HistoryCache(ledger.store, 30_000)
    await cache.state_at(KEY)
    others = [StreamKey("session", f"other_{index}") for index in range(20)]
    for key in others:
        await ledger.session(key.id)
        await cache.state_at(key)
    assert KEY not in cache._marks
    assert others[-1] in cache._marks
    assert cache._marks.size_bytes <= 30_000


async def test_two_readers_of_the_last_page_fold_the_session_once(
    ledger: Ledger, clock: TestClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = await fill(ledger, clock)
    folded = 0

    async def counting(*arguments: Any, **options: Any) -> AsyncIterator[Any]:
        nonlocal folded
        async for one in read_folds(*arguments, **options):
            folded += 1
            yield one

    monkeypatch.setattr(history, "read_folds", counting)
    first, second = await asyncio.gather(cache.page(KEY, ASKS - 1, 9), cache.passed(KEY, ASKS - 1, 9))
    assert [one.version for one in first] == [one.recorded.version for one in second] == [ASKS, ASKS + 1]
    assert folded < ASKS + 2 * FOLD_EVERY_VERSIONS


async def test_an_event_is_given_with_the_state_before_it(ledger: Ledger, clock: TestClock) -> None:
    cache = await fill(ledger, clock)
    for after in (0, FOLD_EVERY_VERSIONS, FOLD_EVERY_VERSIONS + 3):
        [first, second] = await cache.passed(KEY, after, 2)
        assert (first.before.version, second.before.version) == (after, after + 1)
