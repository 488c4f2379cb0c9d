"""A server that lost entries (a failover): fold again, record it, continue."""

from __future__ import annotations

import pytest

from ledger.core.errors import InputError
from ledger.log.stream import Stream
from ledger.stores.port import WakeUp
from ledger.stores.redis.store import RedisStore
from ledger.testing import TestClock
from tests.support.backends import SESSION, Backend, Operator, as_redis, log_of
from tests.support.tally import Claim, Tally, Watched, add, tally
from tests.support.waiting import wait_until_async


@pytest.fixture
async def store(server_backend: Backend) -> RedisStore:
    return as_redis(await server_backend.open())


@pytest.fixture
async def stream(store: RedisStore, admin: Operator, clock: TestClock) -> Stream[Tally]:
    """A stream that knows five events, of which the server, promoted from a replica that lagged, has only two."""
    stream = tally(store)
    await stream.submit(add("a", "b"))
    key = store.keys.stream(SESSION)
    kept = await admin.run("DUMP", key)
    clock.advance(1)
    await stream.submit(Claim("seat"))
    await stream.submit(add("d", "e"))
    await admin.run("RESTORE", key, 0, kept, "REPLACE")
    return stream


async def test_a_writer_that_is_ahead_folds_again_records_the_loss_and_decides_anew(
    store: RedisStore, stream: Stream[Tally]
) -> None:
    seen = str(stream.position)
    done = await stream.submit(Claim("seat"))
    assert done.state == Tally(("a", "b", "seat=me"), regressions=(seen,), version=4)
    assert [one.version for one in done.events] == [4]
    assert await tally(store).refresh() == done.state


async def test_a_reader_that_is_ahead_does_not_go_on_with_what_was_lost(
    store: RedisStore, stream: Stream[Tally]
) -> None:
    seen = str(stream.position)
    assert await stream.refresh() == Tally(("a", "b"), regressions=(seen,), version=3)
    assert await tally(store).refresh() == stream.state


async def test_another_history_of_the_same_length_is_noticed(
    store: RedisStore, stream: Stream[Tally], clock: TestClock
) -> None:
    clock.advance(1)
    await tally(store).submit(add("C", "D", "E"))
    seen = str(stream.position)
    assert await stream.refresh() == Tally(("a", "b", "C", "D", "E"), regressions=(seen,), version=6)


async def test_a_refusal_that_rested_on_lost_events_is_taken_back(stream: Stream[Tally]) -> None:
    done = await stream.submit(Claim("seat", "another"))
    assert done.state.names == ("a", "b", "seat=another")


async def test_a_refusal_that_holds_in_the_new_history_is_told(store: RedisStore, stream: Stream[Tally]) -> None:
    await tally(store).submit(Claim("seat", "them"))
    with pytest.raises(InputError, match="`seat` is taken"):
        await stream.submit(Claim("seat", "us"))


async def test_a_stream_of_which_everything_was_lost_begins_again_with_the_record(
    store: RedisStore, stream: Stream[Tally], admin: Operator
) -> None:
    seen = str(stream.position)
    await admin.run("DEL", store.keys.stream(SESSION))
    done = await stream.submit(add("x"))
    assert done.state == Tally(("x",), regressions=(seen,), version=2)


async def test_every_process_that_saw_the_lost_events_records_it_once_each(
    store: RedisStore, server_backend: Backend, stream: Stream[Tally]
) -> None:
    other = tally(await server_backend.open())
    other.state, other.position = stream.state, stream.position
    other._payload, other.folded = stream._payload, True
    await stream.submit(add("x"))
    await other.submit(add("y"))
    state = await stream.refresh()
    assert state.names == ("a", "b", "x", "y")
    assert len(state.regressions) == 2


async def test_observers_are_told_once_that_everything_is_anew(stream: Stream[Tally]) -> None:
    observed: list[int | None] = []
    stream.observe(lambda recorded: observed.append(recorded.version if recorded else None))
    await stream.submit(add("x"))
    assert observed == [None, 3, 4]


async def test_a_wake_up_of_another_history_makes_the_stream_read(
    store: RedisStore, stream: Stream[Tally], clock: TestClock
) -> None:
    clock.advance(1)
    await tally(store).submit(add("C"))
    log = await log_of(store)
    stream.woken(WakeUp(SESSION, log[-1].position, log[-1:]))
    await wait_until_async(lambda: stream.state.names == ("a", "b", "C"), "the new history")


@pytest.mark.parametrize("call", ["append", "read"])
@pytest.mark.parametrize("written", [1, 2])
async def test_what_a_wake_up_brought_and_the_server_lost_before_it_answered_is_no_damage(
    store: RedisStore, server_backend: Backend, admin: Operator, clock: TestClock, call: str, *, written: int
) -> None:
    watched = Watched(store)
    ours, other = tally(watched.as_store), await server_backend.open()
    await ours.submit(add("a"))
    kept = await admin.run("DUMP", store.keys.stream(SESSION))
    seen: list[str] = []

    async def written_told_and_lost() -> None:
        await tally(other).submit(add(*["lost"] * written))
        log = await log_of(store)
        ours.woken(WakeUp(SESSION, log[-1].position, log[1:]))
        seen.append(str(log[-1].position))
        clock.advance(1)
        await admin.run("RESTORE", store.keys.stream(SESSION), 0, kept, "REPLACE")
        await tally(other).submit(add("b"))

    watched.before[call] = written_told_and_lost
    state = (await ours.submit(add("c"))).state if call == "append" else await ours.refresh()
    assert state.names == (("a", "b", "c") if call == "append" else ("a", "b"))
    assert state.regressions == (seen[0],)
    assert await tally(other).refresh() == state
