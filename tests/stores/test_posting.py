"""Appends sent without a waiting caller: the same answers, and losses are reported."""

from __future__ import annotations

import asyncio

import pytest

from ledger.core.errors import DamageError
from ledger.stores.port import START, Append, Appended, AppendResult, Behind, Conflict, Entry, OutsideWindow, Position
from ledger.stores.redis import RedisStore
from ledger.testing import TestClock
from tests.support.backends import SESSION, Operator, append_of, log_of, written
from tests.support.tally import Tally, add, tally


async def posted(store: RedisStore, append: Append) -> tuple[AppendResult | None, bool]:
    """Post an append; return its answer, and whether it was lost and so may have been written."""
    told: asyncio.Future[tuple[AppendResult | None, bool]] = asyncio.get_running_loop().create_future()
    assert store.post(append, lambda answer, lost: told.set_result((answer, lost)))
    return await told


async def test_what_is_posted_is_answered_as_an_append_is(server_store: RedisStore, clock: TestClock) -> None:
    # So that the server knows the script.
    now_ms = clock.now_ms()
    head = await written(server_store, b"a")
    assert await posted(server_store, append_of(b"b", after=head)) == (Appended(now_ms, now_ms), False)
    conflict = Conflict((Entry(now_ms, 2, b"b"),), Position(now_ms, 2), now_ms)
    assert await posted(server_store, append_of(b"c", after=head)) == (conflict, False)
    ahead = append_of(b"c", after=Position(now_ms, 7))
    assert await posted(server_store, ahead) == (Behind(Position(now_ms, 2), now_ms), False)
    late = append_of(b"c", after=Position(now_ms, 2), window=(None, now_ms - 1))
    assert await posted(server_store, late) == (OutsideWindow(now_ms, now_ms), False)
    assert [entry.payload for entry in await log_of(server_store)] == [b"a", b"b"]


async def test_an_append_on_which_somebody_acts_is_not_posted(server_store: RedisStore) -> None:
    append = Append(key=SESSION, after=START, payloads=(b"a",), binding=True)
    assert not server_store.post(append, lambda *_: None)


async def test_what_a_server_refuses_did_not_count(server_store: RedisStore, admin: Operator) -> None:
    head = await written(server_store, b"a")
    await admin.run("SCRIPT", "FLUSH")
    assert await posted(server_store, append_of(b"b", after=head)) == (None, False)
    assert [entry.payload for entry in await log_of(server_store)] == [b"a"]


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
