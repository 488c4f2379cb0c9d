"""Appends sent without a waiting caller: the same answers, and losses are reported."""

from __future__ import annotations

import asyncio

import pytest

from ledger.core.errors import DamageError, StoreError
from ledger.stores.port import Append, Appended, AppendResult, Behind, Conflict, Entry, OutsideWindow, Position
from ledger.stores.redis.store import RedisStore
from ledger.testing import TestClock
from tests.support.backends import SESSION, Operator, append_of, log_of, written
from tests.support.tally import Tally, add, tally


async def posted(store: RedisStore, append: Append) -> AppendResult | Exception:
    """Post an append; return what it is answered, which must not come before `post` has returned."""
    told: asyncio.Future[AppendResult | Exception] = asyncio.get_running_loop().create_future()
    store.post(append, lambda result, _: told.set_result(result))
    assert not told.done()
    return await told


async def test_what_is_posted_is_answered_as_an_append_is(server_store: RedisStore, clock: TestClock) -> None:
    # So that the server knows the script.
    now_ms = clock.now_ms()
    head = await written(server_store, b"a")
    assert await posted(server_store, append_of(b"b", after=head)) == Appended(now_ms, now_ms)
    conflict = Conflict((Entry(now_ms, 2, b"b"),), Position(now_ms, 2), now_ms)
    assert await posted(server_store, append_of(b"c", after=head)) == conflict
    ahead = append_of(b"c", after=Position(now_ms, 7))
    assert await posted(server_store, ahead) == Behind(Position(now_ms, 2), now_ms)
    late = append_of(b"c", after=Position(now_ms, 2), window=(None, now_ms - 1))
    assert await posted(server_store, late) == OutsideWindow(now_ms, now_ms)
    assert [entry.payload for entry in await log_of(server_store)] == [b"a", b"b"]


async def test_the_callback_gets_what_the_server_refuses(server_store: RedisStore, admin: Operator) -> None:
    await admin.run("SET", server_store.keys.stream(SESSION), "no stream")
    error = await posted(server_store, append_of(b"a"))
    assert isinstance(error, DamageError)
    assert "holds something else" in error.text


async def test_the_callback_gets_an_error_after_the_store_was_closed(server_store: RedisStore) -> None:
    await server_store.close()
    error = await posted(server_store, append_of(b"a"))
    assert isinstance(error, StoreError)
    assert "this ledger is closed" in error.text


async def test_an_append_is_written_though_the_server_has_forgotten_the_script(
    server_store: RedisStore, admin: Operator
) -> None:
    head = await written(server_store, b"a")
    await admin.run("SCRIPT", "FLUSH")
    assert isinstance(await posted(server_store, append_of(b"b", after=head)), Appended)
    assert [entry.payload for entry in await log_of(server_store)] == [b"a", b"b"]


async def test_a_command_whose_script_the_server_has_forgotten_is_written_all_the_same(
    server_store: RedisStore, admin: Operator
) -> None:
    stream = tally(server_store)
    await stream.submit(add("a"))
    await admin.run("SCRIPT", "FLUSH")
    assert (await stream.submit(add("b"))).state == Tally(("a", "b"), version=2)


async def test_a_command_that_meets_foreign_entries_is_refused(server_store: RedisStore, admin: Operator) -> None:
    stream = tally(server_store)
    await stream.submit(add("a"))
    await admin.run("XADD", server_store.keys.stream(SESSION), "*", "other", "x")
    with pytest.raises(DamageError, match="has other fields than `d`"):
        await stream.submit(add("b"))


async def test_commands_that_come_while_one_is_on_its_way_follow_it_in_one_append(server_store: RedisStore) -> None:
    stream = tally(server_store)
    await stream.refresh()
    dones = await asyncio.gather(*(stream.submit(add(f"{number}")) for number in range(20)))
    assert [done.events[0].version for done in dones] == list(range(1, 21))
    assert len({done.events[0].ms for done in dones[1:]}) == 1
    assert dones[-1].state.names == tuple(f"{number}" for number in range(20))


async def test_a_caller_who_goes_away_does_not_take_back_what_was_posted(server_store: RedisStore) -> None:
    stream = tally(server_store)
    await stream.submit(add("a"))
    submitted = asyncio.create_task(stream.submit(add("b")))
    await asyncio.wait([submitted], timeout=0)
    submitted.cancel()
    await asyncio.wait([submitted])
    assert (await stream.submit(add("c"))).state == Tally(("a", "b", "c"), version=3)


async def test_what_fails_here_when_the_answer_comes_is_told_to_who_asked(server_store: RedisStore) -> None:
    stream = tally(server_store)
    await stream.submit(add("a"))
    stop = stream.observe(_fall_over)
    with pytest.raises(ZeroDivisionError):
        await stream.submit(add("b"))
    stop()
    assert (await stream.submit(add("c"))).state == Tally(("a", "b", "c"), version=3)


def _fall_over(_: object) -> None:
    raise ZeroDivisionError
