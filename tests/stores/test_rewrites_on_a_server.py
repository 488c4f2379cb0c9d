"""Rewrites of a stream: what only a real server can do to them, and they to its other users."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from redis.asyncio import Redis

from ledger.core.errors import SetupError
from ledger.stores.port import Append, Appended, Position
from ledger.stores.redis.least_rights import LEAST_RIGHTS, REDACTING_RIGHTS
from ledger.stores.redis.link import Script
from ledger.stores.redis.sealing import COPY_LIVES_MS
from ledger.stores.redis.store import RedisStore
from ledger.stores.store import Store, streams_of
from ledger.stores.urls import open_store
from tests.support.backends import PARTITION_COUNT, SESSION, Operator, append_of, log_of, written
from tests.support.servers import RealServer
from tests.support.store_calls import rewritten
from tests.support.waiting import wait_until_async

if TYPE_CHECKING:
    from tests.support.servers import StartServer

EVENT = (b"redacted", b"why")
SECRET = b"correct-horse-battery"


async def copies(admin: Operator) -> list[bytes]:
    found: list[bytes] = await admin.run("KEYS", "*:redact:*")
    return found


async def test_a_reader_that_blocks_on_the_stream_goes_on_with_the_next_entry(
    server_store: RedisStore, server: RealServer
) -> None:
    """The rename neither ends a blocked XREAD nor repeats entries to it."""
    head = await written(server_store, b"one", (b"two", b"secret"))
    name = server_store.keys.stream(SESSION)
    async with Redis.from_url(server.url, protocol=2) as client:
        reader = Operator(client)
        waiting = asyncio.create_task(reader.run("XREAD", "BLOCK", 5000, "STREAMS", name, str(head)))
        await wait_until_async(lambda: _blocked(server_store), "a blocked reader")
        (answer,) = await rewritten(server_store, [2], append_of(EVENT, after=head))
        assert isinstance(answer, Appended)
        ((_, (entry,)),) = await waiting
        assert entry == (f"{answer.ms}-3".encode(), {b"d": b"redacted", b"x": b"why"})
        later = asyncio.create_task(reader.run("XREAD", "BLOCK", 5000, "STREAMS", name, entry[0]))
        await written(server_store, b"four", after=Position(answer.ms, 3))
        ((_, (last,)),) = await later
        assert last[1] == {b"d": b"four"}


async def test_what_a_process_that_died_midway_leaves_is_harmless_and_ends_by_itself(
    server_store: RedisStore, admin: Operator
) -> None:
    head = await written(server_store, *[(b"d", b"secret")] * 400)
    before = await log_of(server_store)

    async def dies() -> Append:
        assert [0 < await admin.run("PTTL", one) <= COPY_LIVES_MS for one in await copies(admin)] == [True, True]
        assert await log_of(server_store) == before
        assert [key async for key in streams_of(server_store)] == [SESSION]
        raise EOFError

    with pytest.raises(EOFError):
        # The first is a conflict: it stops before the last step.
        await rewritten(server_store, [1, 400], append_of(EVENT, after=Position(head.ms, 399)), dies)
    assert await copies(admin) == []


async def test_a_rewritten_stream_has_no_time_to_live(server_store: RedisStore, admin: Operator) -> None:
    head = await written(server_store, (b"one", b"secret"))
    await rewritten(server_store, [1], append_of(EVENT, after=head))
    assert await admin.run("PTTL", server_store.keys.stream(SESSION)) == -1
    assert await copies(admin) == []


async def test_a_copy_that_is_lost_before_the_last_step_is_made_again(
    server_store: RedisStore, admin: Operator
) -> None:
    head = await written(server_store, *[(b"d", b"secret")] * 300)

    async def lost() -> Append:
        await admin.run("DEL", *(await copies(admin)))
        return append_of(EVENT, after=head)

    _, answer = await rewritten(server_store, [1, 300], append_of(EVENT, after=Position(head.ms, 299)), lost)
    assert isinstance(answer, Appended)
    assert [one.version for one in await log_of(server_store) if one.content is None] == [1, 300]


async def test_a_call_that_is_sent_again_copies_no_content_that_is_to_go(server_store: RedisStore) -> None:
    """The second call names the versions of the first slice; on the next slice they would protect nothing."""
    await written(server_store, *[(b"d", b"secret")] * 20)
    named = server_store.keys.redaction
    partition = SESSION.partition(server_store.partition_count)
    keys = (server_store.keys.stream(SESSION), named(partition, "copy"), named(partition, "lease"))
    script = Script.named("redact_copy.lua")
    call = ("0-0", 10, 10, 1_000_000, 1000, "me", 1, 2, 3)
    first = await server_store.evaluate(script, keys, call)
    assert await server_store.evaluate(script, keys, call) == first
    assert first.endswith(b"-10")
    assert await server_store.command("XLEN", keys[1]) == 10


async def test_a_user_who_may_not_rename_is_told_so(server_store: RedisStore, admin: Operator) -> None:
    head = await written(server_store, (b"one", b"secret"))
    await admin.run("ACL", "SETUSER", "default", "-rename")
    try:
        with pytest.raises(SetupError, match="rewrite a stream"):
            await rewritten(server_store, [1], append_of(EVENT, after=head))
        assert (await log_of(server_store))[0].content == b"secret"
    finally:
        await admin.run("ACL", "SETUSER", "default", "+rename")


async def test_files_that_may_not_be_written_anew_are_named(start_server: StartServer) -> None:
    server = start_server("durable")
    async with Redis.from_url(server.url, protocol=2) as client, opened(server) as store:
        await Operator(client).run("ACL", "SETUSER", "default", "-bgrewriteaof", "-slowlog")
        (told,) = await store.rewrite_files()
        assert (told.append_only_file, told.slow_log) == ("not permitted", "not permitted")
        assert not told.is_clean


async def test_neither_append_only_file_nor_snapshot_hold_what_was_redacted(start_server: StartServer) -> None:
    server = start_server("durable", options={"save": "3600 1"})
    async with Redis.from_url(server.url, protocol=2) as client, opened(server) as store:
        head = await written(store, (b"one", SECRET))
        await client.save()
        assert _files_with(server.folder, SECRET)
        assert isinstance((await rewritten(store, [1], append_of(EVENT, after=head)))[0], Appended)
        (told,) = await store.rewrite_files()
        assert (told.append_only_file, told.snapshot_file, told.slow_log) == ("done", "done", "done")
        assert _files_with(server.folder, SECRET) == []
        assert _files_with(server.folder, b"redacted")


async def test_redaction_needs_rights_that_no_serving_process_has(start_server: StartServer) -> None:
    server = start_server("durable")
    async with Redis.from_url(server.url, protocol=2) as client:
        for name, rights in (("ledger", LEAST_RIGHTS), ("redactor", REDACTING_RIGHTS)):
            await Operator(client).run("ACL", "SETUSER", name, "on", ">word", *_rules(rights))
    async with opened(server, "ledger") as store:
        head = await written(store, (b"one", SECRET))
        with pytest.raises(SetupError, match="rewrite a stream"):
            await rewritten(store, [1], append_of(EVENT, after=head))
    async with opened(server, "redactor") as store:
        assert isinstance((await rewritten(store, [1], append_of(EVENT, after=head)))[0], Appended)
        (told,) = await store.rewrite_files()
        assert told.is_clean
    assert _files_with(server.folder, SECRET) == []


def test_the_guide_lists_the_rights_that_redaction_needs() -> None:
    more = REDACTING_RIGHTS.removeprefix(f"{LEAST_RIGHTS} ")
    assert f"  `{more}`\n" in Path("docs/guides/operating.md").read_text()


def _rules(rights: str) -> list[str]:
    """Split at spaces, except within the parentheses of a selector."""
    return re.findall(r"\([^)]*\)|\S+", rights)


@asynccontextmanager
async def opened(server: RealServer, user: str | None = None) -> AsyncIterator[Store]:
    url = server.url if user is None else server.url.replace("unix://", f"unix://{user}:word@")
    store = open_store(url, partition_count=PARTITION_COUNT)
    try:
        await store.start()
        yield store
    finally:
        await store.close()


async def _blocked(store: RedisStore) -> bool:
    return b"blocked_clients:1" in await store.command("INFO", "clients")


def _files_with(folder: Path, words: bytes) -> list[Path]:
    return [one for one in folder.rglob("*") if one.is_file() and words in one.read_bytes()]
