"""Effects on an append that only a real server can cause."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from ledger.core.errors import DamageError, StoreError
from ledger.core.events import Presence
from ledger.stores.port import START, Appended, Behind, Due, Entry, FreezeFlag, StreamKey
from ledger.stores.redis.appends import clocked_script
from ledger.stores.redis.link import CommandLine, Link
from ledger.stores.redis.store import RedisStore
from ledger.stores.store import append_to, streams_of
from ledger.testing import TestClock
from tests.support.backends import (
    PROJECT,
    SESSION,
    Backend,
    Operator,
    answer_to,
    append_of,
    as_redis,
    at,
    log_of,
    written,
)
from tests.support.store_calls import project


async def errors(admin: Operator, code: str) -> int:
    """Return how often the server has refused with this code."""
    stats = await admin.run("INFO", "errorstats")
    return int(stats.get(f"errorstat_{code}", {}).get("count", 0))


async def test_a_stream_that_somebody_emptied_takes_no_second_version_1(
    server_store: RedisStore, admin: Operator, clock: TestClock
) -> None:
    await written(server_store, b"a")
    await admin.run("XTRIM", server_store.keys.stream(SESSION), "MAXLEN", "=", 0)
    assert await answer_to(server_store, append_of(b"again")) == Behind(START, clock.now_ms())
    assert await log_of(server_store) == ()


@pytest.mark.parametrize("due", [Due(5), Due(5, relative=True), "nothing due"], ids=["at", "in", "none"])
async def test_a_hint_that_fails_fails_no_append(
    server_store: RedisStore, admin: Operator, clock: TestClock, due: Due | str
) -> None:
    """A script does not roll back: an error after the events would be told although they are in the log."""
    partition = SESSION.partition(server_store.partition_count)
    for key in (server_store.keys.due(partition), server_store.keys.feed(partition)):
        await admin.run("SET", key, "something else")
    assert await answer_to(server_store, append_of(b"a", b"b", due=due)) == Appended(clock.now_ms(), clock.now_ms())
    assert [entry.payload for entry in await log_of(server_store)] == [b"a", b"b"]


async def test_something_else_at_a_hints_key_is_damage_to_whoever_reads_it(
    server_store: RedisStore, admin: Operator
) -> None:
    await admin.run("SET", server_store.keys.due(SESSION.partition(server_store.partition_count)), "something else")
    with pytest.raises(DamageError, match="something else writes to this server"):
        await server_store.due(None, 10)


async def test_something_else_at_the_streams_key_is_damage_and_stays(server_store: RedisStore, admin: Operator) -> None:
    key = server_store.keys.stream(SESSION)
    await admin.run("SET", key, "something else")
    for attempt in (
        append_to(server_store, append_of(b"a")),
        server_store.open(SESSION),
        server_store.read(SESSION, START, 1),
        server_store.info(SESSION),
    ):
        with pytest.raises(DamageError, match="a key of the ledger holds something else"):
            await attempt
    assert await admin.run("GET", key) == b"something else"


async def test_an_append_beside_a_broken_stream_is_written_but_not_acknowledged(
    server_store: RedisStore, admin: Operator
) -> None:
    """The stream that an allow rests on is unreadable, so no allow is returned; the event itself is in the log."""
    await admin.run("SET", server_store.keys.stream(PROJECT), "something else")
    with pytest.raises((DamageError, StoreError)):
        await append_to(server_store, append_of(b"a"), (PROJECT, START))
    assert [entry.payload for entry in await log_of(server_store)] == [b"a"]


async def test_a_flushed_script_is_loaded_again_once(server_store: RedisStore, admin: Operator) -> None:
    head = await written(server_store, b"a")
    before = await errors(admin, "NOSCRIPT")
    await admin.run("SCRIPT", "FLUSH")
    for _ in range(5):
        head = await written(server_store, b"x", after=head)
    # The posted attempt, and the first one of the task that takes over from it and loads the script.
    assert await errors(admin, "NOSCRIPT") == before + 2
    assert head.version == 6


async def test_every_script_is_loaded_again(server_store: RedisStore, admin: Operator) -> None:
    head = await written(server_store, b"a", due=Due(5))
    await admin.run("SCRIPT", "FLUSH")
    assert await project(server_store, SESSION, START, at(1), [])
    await admin.run("SCRIPT", "FLUSH")
    await server_store.correct_due(SESSION.id, 5, Due(6), at=head)
    assert await server_store.due(None, 1) == [(SESSION.id, 6)]


async def test_a_script_of_all_partitions_is_loaded_once(server_store: RedisStore, admin: Operator) -> None:
    await admin.run("SCRIPT", "FLUSH")
    before = await errors(admin, "NOSCRIPT")
    assert len(await server_store.set_flags(FreezeFlag(START, {}))) == server_store.partition_count
    # Of all partitions at first, and of the one that brings the script.
    assert await errors(admin, "NOSCRIPT") == before + server_store.partition_count + 1


async def test_a_server_that_loses_its_scripts_after_each_batch_refuses_nothing(
    server_store: RedisStore, admin: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that is killed twice, quickly: started again, it has no scripts."""
    head = await written(server_store, b"a", due=Due(5))
    run = Link.run

    async def run_and_forget(link: Link, commands: Sequence[CommandLine], *, in_order: bool = False) -> list[Any]:
        replies = await run(link, commands, in_order=in_order)
        await admin.run("SCRIPT", "FLUSH")
        return replies

    monkeypatch.setattr(Link, "run", run_and_forget)
    assert len(await server_store.set_flags(FreezeFlag(START, {}))) == server_store.partition_count
    assert await project(server_store, SESSION, START, at(1), [])
    await server_store.correct_due(SESSION.id, 5, Due(6), at=head)
    assert (await written(server_store, b"b", after=head)).version == head.version + 1
    assert (await server_store.look_up("index", "per_1", 1)).fields == []


async def test_two_versions_of_the_script_work_side_by_side(server_backend: Backend) -> None:
    """During a rolling upgrade old and new workers write to the same streams."""
    old, new = as_redis(await server_backend.open()), as_redis(await server_backend.open())
    script = clocked_script("append.lua", test_clock=True)
    new.append_calls.script = type(script)(script.text + "\n-- a later version\n")
    assert new.append_calls.script.sha != script.sha
    head = START
    for number in range(6):
        head = await written((old, new)[number % 2], b"%d" % number, after=head)
    assert [entry.payload for entry in await log_of(old)] == [b"%d" % number for number in range(6)]


async def test_by_the_servers_own_clock_too_ids_never_fall(
    server_store: RedisStore, live_server_store: RedisStore, clock: TestClock
) -> None:
    """The first entry bears a time of the future: a clock that jumped forward and came back."""
    future_ms = await live_server_store.now_ms() + 3_600_000
    clock.set(future_ms)
    head = await written(server_store, b"a")
    answer = await answer_to(live_server_store, append_of(b"b", after=head))
    assert isinstance(answer, Appended)
    assert answer.ms == future_ms
    assert answer.now_ms < future_ms
    assert await log_of(live_server_store) == (Entry(future_ms, 1, b"a"), Entry(future_ms, 2, b"b"))


async def test_everything_of_a_stream_lies_in_the_hash_slot_of_its_partition(
    server_store: RedisStore, admin: Operator
) -> None:
    """So that the scripts are atomic on a cluster as well."""
    await written(server_store, b"a", due=Due(5))
    await project(server_store, SESSION, START, at(1), [])
    tag = f"{{pl:{SESSION.partition(server_store.partition_count)}}}".encode()
    keys = await admin.run("KEYS", "*")
    assert sorted(key for key in keys if not key.startswith(tag)) == [b"pl:config"]
    assert len(keys) == 5


async def test_only_leases_end_by_themselves(server_store: RedisStore, admin: Operator) -> None:
    await written(server_store, b"a", due=Due(5))
    await project(server_store, SESSION, START, at(1), [])
    await server_store.lease("ses_1", Presence("cli_1", "laptop"), 30_000)
    ending = [key for key in await admin.run("KEYS", "*") if await admin.run("PTTL", key) != -1]
    assert ending == [server_store.keys.lease("ses_1").encode()]


async def test_what_lies_beside_the_ledger_on_the_server_is_no_stream(
    server_store: RedisStore, admin: Operator
) -> None:
    await written(server_store, b"a")
    await admin.run("XADD", "another:stream", "*", "field", "value")
    await admin.run("SET", "{pl:1}:s:text", "value")
    assert [key async for key in streams_of(server_store)] == [StreamKey("session", "ses_1")]
