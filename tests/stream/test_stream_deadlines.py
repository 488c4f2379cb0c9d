"""Deadlines: due events are settled before anything else, and the server's clock alone decides."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import pytest

from ledger.core.errors import StaleReplyError
from ledger.core.events import Replied, Settings
from ledger.log.stream import Stream
from ledger.log.streams import Streams
from ledger.session.commands import Live
from ledger.session.state import SessionState
from ledger.stores.store import EstimatedClock, Store
from ledger.testing import TestClock
from tests.support.backends import SESSION, Backend, as_redis, compare_flag, log_of
from tests.support.commands import asks, opens, replies
from tests.support.tally import Watched
from tests.support.waiting import wait_until_async

DEADLINE_MS: Final = 60_000
SHORT_MS: Final = 150
NOBODY: Final = Live()


def session(store: Store) -> Stream[SessionState]:
    return Streams(store).session(SESSION.id)


async def asked(store: Store, *request_ids: str, deadline_ms: int = DEADLINE_MS) -> Stream[SessionState]:
    """A session in which these requests are pending and nobody is connected."""
    await compare_flag(store)
    stream = session(store)
    await stream.submit(opens(settings=Settings(unattended_ms=deadline_ms)))
    for request_id in request_ids:
        await stream.submit(asks(request_id, "git push", live=NOBODY))
    return stream


def outcome(state: SessionState, request_id: str = "per_1") -> str | None:
    settled = state.settled.get(request_id)
    return None if settled is None else settled.outcome


async def test_a_reply_one_millisecond_before_the_deadline_counts(store: Store, clock: TestClock) -> None:
    stream = await asked(store, "per_1")
    clock.advance(DEADLINE_MS - 1)
    done = await stream.submit(replies("per_1", "once"))
    assert [type(one.event) for one in done.events] == [Replied]
    assert outcome(done.state) == "allowed"


async def test_a_reply_at_the_deadlines_very_millisecond_expires_the_request_instead(
    store: Store, clock: TestClock
) -> None:
    stream = await asked(store, "per_1")
    clock.advance(DEADLINE_MS)
    with pytest.raises(StaleReplyError) as caught:
        await stream.submit(replies("per_1", "once"))
    assert caught.value.code == "PERMISSION_STALE"
    assert outcome(await stream.refresh()) == "expired"


def moving(clock: TestClock, ms: int) -> Callable[[], Awaitable[None]]:
    async def move() -> None:
        clock.set(clock.now_ms() + ms)

    return move


async def test_a_reply_that_was_decided_in_time_but_reaches_the_server_at_the_deadline_does_not_count(
    store: Store, clock: TestClock
) -> None:
    watched = Watched(store)
    stream = await asked(watched.as_store, "per_1")
    clock.advance(DEADLINE_MS - 1)
    watched.before["append"] = moving(clock, 1)
    with pytest.raises(StaleReplyError):
        await stream.submit(replies("per_1", "once"))
    assert [append.not_after_ms for append in watched.appends[-2:]] == [clock.now_ms() - 1, None]
    assert outcome(await session(store).refresh()) == "expired"


async def test_an_expiry_that_was_decided_by_a_fast_clock_does_not_count_and_the_reply_does(
    store: Store, clock: TestClock
) -> None:
    watched = Watched(store)
    stream = await asked(watched.as_store, "per_1")
    clock.advance(DEADLINE_MS)
    watched.before["append"] = moving(clock, -1)
    done = await stream.submit(replies("per_1", "once"))
    expiries = [one.not_before_ms for one in watched.appends if one.not_before_ms is not None]
    assert expiries == [clock.now_ms() + 1]
    assert outcome(done.state) == "allowed"
    assert "expired" not in {type(one.event).__name__.lower() for one in done.events}


async def test_what_is_due_is_settled_before_any_other_command(store: Store, clock: TestClock) -> None:
    stream = await asked(store, "per_1", "per_2")
    clock.advance(DEADLINE_MS)
    done = await stream.submit(asks("per_3", "git push", live=NOBODY))
    assert [outcome(done.state, f"per_{number}") for number in (1, 2, 3)] == ["expired", "expired", None]
    assert set(done.state.pending.keys()) == {"per_3"}
    log = await log_of(store)
    assert [b'"expired"' in entry.payload for entry in log[-3:]] == [True, True, False]


async def test_two_processes_that_settle_at_once_write_one_expiry(backend: Backend, clock: TestClock) -> None:
    one = await asked(await backend.open(), "per_1")
    other = session(await backend.open())
    await other.refresh()
    clock.advance(DEADLINE_MS)
    outcomes = await asyncio.gather(
        *(stream.submit(replies("per_1", "once")) for stream in (one, other) for _ in range(3)),
        return_exceptions=True,
    )
    assert [type(outcome) for outcome in outcomes] == [StaleReplyError] * 6
    log = await log_of(await backend.open())
    assert len([entry for entry in log if b'"expired"' in entry.payload]) == 1


async def test_of_a_reply_and_an_expiry_at_once_exactly_one_counts(backend: Backend, clock: TestClock) -> None:
    """One process is behind by its clock's last millisecond, the other settles; the log holds one outcome."""
    replying = Watched(await backend.open())
    stream = await asked(replying.as_store, "per_1")
    expiring = session(await backend.open())
    await expiring.refresh()
    clock.advance(DEADLINE_MS - 1)

    async def the_other_expires_it() -> None:
        clock.advance(1)
        await expiring.submit(asks("per_2", "ls", live=NOBODY))

    replying.before["append"] = the_other_expires_it
    with pytest.raises(StaleReplyError):
        await stream.submit(replies("per_1", "once"))
    state = await stream.refresh()
    assert outcome(state) == "expired"
    assert await expiring.refresh() == state


async def test_reading_settles_nothing(store: Store, clock: TestClock) -> None:
    stream = await asked(store, "per_1")
    clock.advance(DEADLINE_MS * 2)
    state = await stream.refresh()
    assert set(state.pending.keys()) == {"per_1"}


async def test_the_hint_of_the_earliest_deadline_follows_the_session(store: Store, clock: TestClock) -> None:
    begun_ms = clock.now_ms()
    stream = await asked(store, "per_1")
    clock.advance(5)
    await stream.submit(asks("per_2", "ls", live=NOBODY))
    assert await store.due(None, 10) == [(SESSION.id, begun_ms + DEADLINE_MS)]
    await stream.submit(replies("per_1", "once"))
    assert await store.due(None, 10) == [(SESSION.id, begun_ms + 5 + DEADLINE_MS)]
    await stream.submit(replies("per_2", "once"))
    assert await store.due(None, 10) == []


async def test_more_requests_than_one_append_holds_are_all_settled_before_the_command(
    store: Store, clock: TestClock
) -> None:
    stream = await asked(store)
    names = [f"per_{number}" for number in range(600)]
    await asyncio.gather(*(stream.submit(asks(name, "ls", live=NOBODY)) for name in names))
    clock.advance(DEADLINE_MS)
    with pytest.raises(StaleReplyError):
        await stream.submit(replies(names[-1], "once"))
    state = await stream.refresh()
    assert {outcome(state, name) for name in names} == {"expired"}


# --- by the server's own clock ----------------------------------------------------------------------------------------


async def deadline_passed(store: Store, stream: Stream[SessionState]) -> None:
    deadline_ms = stream.state.pending["per_1"].deadline_ms
    assert deadline_ms is not None

    async def passed() -> bool:
        return await store.now_ms() >= deadline_ms

    await wait_until_async(passed, "the deadline")


async def test_by_the_servers_clock_a_late_reply_expires_the_request(live_backend: Backend) -> None:
    stream = await asked(await live_backend.open(), "per_1", deadline_ms=SHORT_MS)
    await deadline_passed(await live_backend.open(), stream)
    with pytest.raises(StaleReplyError):
        await stream.submit(replies("per_1", "once"))
    assert outcome(stream.state) == "expired"


def skew(store: Store, ms: int) -> None:
    """Shift a process's estimate of the server's clock, until the next answer."""
    clock = as_redis(store).clock
    assert isinstance(clock, EstimatedClock)
    clock._offset_ms = (clock._offset_ms or 0.0) + ms


async def test_a_process_whose_clock_is_slow_cannot_slip_a_reply_in_after_the_deadline(
    live_server_store: Store,
) -> None:
    stream = await asked(live_server_store, "per_1", deadline_ms=SHORT_MS)
    await deadline_passed(live_server_store, stream)
    skew(live_server_store, -3_600_000)
    with pytest.raises(StaleReplyError):
        await stream.submit(replies("per_1", "once"))
    assert outcome(await stream.refresh()) == "expired"


async def test_a_process_whose_clock_is_fast_cannot_expire_a_request_before_its_deadline(
    live_server_store: Store,
) -> None:
    stream = await asked(live_server_store, "per_1")
    skew(live_server_store, 3_600_000)
    done = await stream.submit(replies("per_1", "once"))
    assert outcome(done.state) == "allowed"
