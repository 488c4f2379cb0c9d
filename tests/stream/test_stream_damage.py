"""Streams that the ledger did not write: reported, and never appended to."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from ledger.core.errors import DamageError
from ledger.log.stream import Stream
from ledger.stores.redis.store import RedisStore
from tests.support.backends import PROJECT, SESSION, Backend, Operator, as_redis, written
from tests.support.tally import Tally, add, tally

Log = list[tuple[bytes, dict[bytes, bytes]]]
Harm = Callable[[Operator, str, Log], Awaitable[None]]


async def _edited(admin: Operator, key: str, log: Log, **changes: bytes) -> None:
    """Rewrite the stream as an attacker would who hides the edit."""
    await admin.run("DEL", key)
    for entry_id, fields in log:
        changed = changes.get(entry_id.partition(b"-")[2].decode(), fields[b"d"])
        await admin.run("XADD", key, entry_id, "d", changed)


async def edit_a_payload(admin: Operator, key: str, log: Log) -> None:
    await _edited(admin, key, log, **{"2": log[1][1][b"d"].replace(b'"b"', b'"B"')})


async def leave_a_gap(admin: Operator, key: str, log: Log) -> None:
    await _edited(admin, key, [log[0], log[2]])


async def delete_an_entry(admin: Operator, key: str, log: Log) -> None:
    await admin.run("XDEL", key, log[1][0])


async def delete_the_last_entry(admin: Operator, key: str, log: Log) -> None:
    await admin.run("XDEL", key, log[2][0])


async def cut_the_beginning(admin: Operator, key: str, log: Log) -> None:
    await admin.run("XTRIM", key, "MAXLEN", "=", "2")


async def empty_it(admin: Operator, key: str, log: Log) -> None:
    await admin.run("XTRIM", key, "MAXLEN", "=", "0")


async def swap_two_payloads(admin: Operator, key: str, log: Log) -> None:
    await _edited(admin, key, log, **{"2": log[2][1][b"d"], "3": log[1][1][b"d"]})


async def date_an_entry_back(admin: Operator, key: str, log: Log) -> None:
    earlier = b"%d-1" % (int(log[0][0].partition(b"-")[0]) - 5)
    await _edited(admin, key, [(earlier, log[0][1]), *log[1:]])


async def add_a_foreign_field(admin: Operator, key: str, log: Log) -> None:
    ms = int(log[2][0].partition(b"-")[0])
    await admin.run("XADD", key, f"{ms}-4", "d", "{}", "more", "x")


async def add_an_entry_of_another_program(admin: Operator, key: str, log: Log) -> None:
    ms = int(log[2][0].partition(b"-")[0])
    await admin.run("XADD", key, f"{ms + 1}-0", "d", "hello")


async def add_what_is_no_event(admin: Operator, key: str, log: Log) -> None:
    ms = int(log[2][0].partition(b"-")[0])
    await admin.run("XADD", key, f"{ms}-4", "d", '{"v": 1}')


async def put_something_else_there(admin: Operator, key: str, log: Log) -> None:
    await admin.run("SET", key, "hello")


HARMS: list[Harm] = [
    edit_a_payload,
    leave_a_gap,
    delete_an_entry,
    delete_the_last_entry,
    cut_the_beginning,
    empty_it,
    swap_two_payloads,
    date_an_entry_back,
    add_a_foreign_field,
    add_an_entry_of_another_program,
    add_what_is_no_event,
    put_something_else_there,
]


@pytest.fixture
async def store(server_backend: Backend) -> RedisStore:
    return as_redis(await server_backend.open())


@pytest.fixture
async def written_log(store: RedisStore) -> Stream[Tally]:
    """Three events, each of an append of its own, as known to the stream that wrote them."""
    stream = tally(store)
    for name in "abc":
        await stream.submit(add(name))
    return stream


async def harm(admin: Operator, store: RedisStore, harm: Harm) -> tuple[bytes, str]:
    key = store.keys.stream(SESSION)
    await harm(admin, key, await admin.run("XRANGE", key, "-", "+"))
    damaged: bytes = await admin.run("DUMP", key)
    return damaged, key


@pytest.mark.parametrize("harming", HARMS, ids=lambda harming: harming.__name__)
async def test_whoever_folds_a_damaged_stream_is_told_and_nothing_is_appended(
    store: RedisStore, written_log: Stream[Tally], admin: Operator, harming: Harm
) -> None:
    damaged, key = await harm(admin, store, harming)
    stream = tally(store)
    for command in (None, add("x"), add("y")):
        with pytest.raises(DamageError) as caught:
            await stream.submit(command)
        assert caught.value.code == "DAMAGED"
    assert await admin.run("DUMP", key) == damaged


AT_THE_HEAD: list[Harm] = [
    delete_the_last_entry,
    empty_it,
    add_a_foreign_field,
    add_an_entry_of_another_program,
    add_what_is_no_event,
    put_something_else_there,
]
"""Damage that a stream with a cached state detects too; other damage shows in a new fold and in `verify`."""


@pytest.mark.parametrize("command", [None, add("x")], ids=["reading", "appending"])
@pytest.mark.parametrize("harming", AT_THE_HEAD, ids=lambda harming: harming.__name__)
async def test_whoever_knew_the_stream_is_told_of_damage_at_its_end(
    store: RedisStore, written_log: Stream[Tally], admin: Operator, harming: Harm, command: object
) -> None:
    damaged, key = await harm(admin, store, harming)
    for _ in range(2):
        with pytest.raises(DamageError):
            await written_log.submit(command)
    assert await admin.run("DUMP", key) == damaged


async def test_a_damaged_stream_that_was_repaired_is_folded_again(
    store: RedisStore, written_log: Stream[Tally], admin: Operator
) -> None:
    key = store.keys.stream(SESSION)
    kept = await admin.run("DUMP", key)
    await admin.run("SET", key, "hello")
    with pytest.raises(DamageError):
        await written_log.submit(add("x"))
    await admin.run("RESTORE", key, 0, kept, "REPLACE")
    assert (await written_log.submit(add("d"))).state == Tally(("a", "b", "c", "d"), version=4)


async def test_damage_in_one_stream_concerns_no_other(
    store: RedisStore, written_log: Stream[Tally], admin: Operator
) -> None:
    await admin.run("SET", store.keys.stream(SESSION), "hello")
    assert (await tally(store, PROJECT).submit(add("p"))).state == Tally(("p",), version=1)


async def test_damage_names_the_stream_and_the_version(store: RedisStore, admin: Operator) -> None:
    stream = tally(store)
    await stream.submit(add("a"))
    await written(store, b"{}", after=stream.position)
    with pytest.raises(DamageError, match="stream `session:ses_1` version 2") as caught:
        await tally(store).refresh()
    assert caught.value.data == {"stream": "session:ses_1", "version": 2}
