"""Sealed streams on a real server: older programs, broken stubs, lost answers, crashes, replicas, rights."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
import redis
from redis.asyncio import Redis

from ledger.core.errors import DamageError, InDoubtError, NewerSchemaError, SealedError, SetupError
from ledger.stores.durability import Durability
from ledger.stores.port import NOTHING_DUE, START, Due
from ledger.stores.redis import sealing
from ledger.stores.redis.least_rights import LEAST_RIGHTS, SEALING_RIGHTS
from ledger.stores.redis.link import Script
from ledger.stores.redis.sealing import COPY_LIVES_MS
from ledger.stores.redis.store import RedisStore
from ledger.stores.sealed import STUB_BYTES, Seal
from ledger.stores.store import Store, append_to, streams_of
from ledger.stores.urls import open_store
from tests.house.sources import text_of
from tests.stores.test_lost_answers import far_store, impatient, proxy
from tests.support.backends import PARTITION_COUNT, SESSION, Operator, append_of, log_of, written
from tests.support.proxy import Fault, Proxy
from tests.support.sealing import seal_of, sealed, three
from tests.support.servers import RealServer
from tests.support.store_calls import positions, seals

if TYPE_CHECKING:
    from tests.support.servers import StartServer

__all__ = ["far_store", "impatient", "proxy"]

LOSSES = (Fault.NOT_FORWARDED, Fault.ANSWER_LOST)


async def beside(admin: Operator) -> list[bytes]:
    """Return the keys of what is not yet in its place."""
    found: list[bytes] = await admin.run("KEYS", "*:sealing:*")
    return found


async def load_scripts(store: RedisStore) -> None:
    """Load what brings a stream back, so that each call is one EVALSHA."""
    for name in ("unseal.lua", "unseal_copy.lua"):
        await store.command("SCRIPT", "LOAD", Script.named(name).text)


# --- older programs ---------------------------------------------------------------------------------------------------


async def test_an_older_program_begins_no_second_history(server_store: RedisStore, admin: Operator) -> None:
    """Its append script, and whatever it may write directly, is refused by the type of the key."""
    seal, _ = await sealed(server_store)
    stream = server_store.keys.stream(SESSION)
    keys = (stream, *(server_store.keys.sealing(0, name) for name in ("due", "feed")))
    older = Script.named("append.lua")
    for seen in ((0, 0), seal.head):
        call = older.call(keys, (*seen, "", "", "in", 5, SESSION.name, "bell", "", "payload", ""))
        await admin.run("SCRIPT", "LOAD", older.text)
        with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
            await admin.run(*call)
    with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
        await admin.run("XADD", stream, "*", "d", "payload")
    assert await admin.run("EXISTS", *keys[1:]) == 0
    assert await seals(server_store, [SESSION]) == [seal]


async def test_a_hint_that_an_older_process_set_for_a_sealed_session_can_only_be_removed(
    server_store: RedisStore, admin: Operator
) -> None:
    seal, _ = await sealed(server_store)
    await admin.run("ZADD", server_store.keys.due(SESSION.partition(server_store.partition_count)), 900, SESSION.id)
    with pytest.raises(SealedError):
        await server_store.correct_due(SESSION.id, 900, Due(950), at=seal.head)
    assert await server_store.due(None, 10) == [(SESSION.id, 900)]
    await server_store.correct_due(SESSION.id, 900, NOTHING_DUE, at=seal.head)
    assert await server_store.due(None, 10) == []


# --- what is no stub --------------------------------------------------------------------------------------------------

BROKEN = {
    "no MessagePack": (b"seal", b"\xc1", b"file", b"f"),
    "too long": (b"seal", b"\x90", b"file", b"f" * STUB_BYTES),
    "a text": (b"seal", b"gone", b"file", b"f"),
    "no file": (b"seal", b"\x90"),
    "another field": (b"seal", b"\x90", b"else", b"f"),
    "a third field": (b"seal", b"\x90", b"file", b"f", b"more", b"1"),
    "nothing in it": (b"seal", b"\x90", b"file", b"f"),
    "too little": (b"seal", b"\x92\x01\x02", b"file", b"f"),
    "too much": (b"seal", b"\x96\x01\x05\x01\xc4\x20" + bytes(32) + b"\x05\x05", b"file", b"f"),
    "a version out of range": (b"seal", b"\x95\x01\x05\x00\xc4\x20" + bytes(32) + b"\x05", b"file", b"f"),
    "a short hash": (b"seal", b"\x95\x01\x05\x01\xc4\x1f" + bytes(31) + b"\x05", b"file", b"f"),
    "a file above the root": (b"seal", b"\x95\x01\x05\x01\xc4\x20" + bytes(32) + b"\x05", b"file", b"../f"),
    "a digest that is too short": (b"seal", b"\x95\x02\x05\x01\xc4\x20" + bytes(32) + b"\x05", b"file", b"f"),
    "a file that is no text": (b"seal", b"\x95\x01\x05\x01\xc4\x20" + bytes(32) + b"\x05", b"file", b"\xff"),
}


@pytest.mark.parametrize("fields", BROKEN.values(), ids=BROKEN)
async def test_a_broken_stub_is_damage_to_everybody_and_stays(
    server_store: RedisStore, admin: Operator, fields: tuple[bytes, ...]
) -> None:
    log = await three(server_store)
    seal = seal_of(log)
    stream = server_store.keys.stream(SESSION)
    await admin.run("DEL", stream)
    await admin.run("HSET", stream, *fields)
    before = await admin.run("HGETALL", stream)
    for attempt in (
        append_to(server_store, append_of(b"again")),
        server_store.open(SESSION),
        server_store.read(SESSION, START, 1),
        seals(server_store, [SESSION]),
        positions(server_store, [SESSION]),
        server_store.restore(SESSION, seal, log, None),
    ):
        with pytest.raises(DamageError, match="the stub of the sealed stream `session:ses_1` is broken"):
            await attempt
    assert not await server_store.seal(SESSION, seal)
    assert await admin.run("HGETALL", stream) == before


async def test_a_stub_of_a_newer_version_says_so(server_store: RedisStore, admin: Operator) -> None:
    await admin.run("HSET", server_store.keys.stream(SESSION), "seal", b"\x92\x03\xa1?", "file", "f")
    with pytest.raises(NewerSchemaError, match="sealed by a newer version"):
        await server_store.open(SESSION)


async def test_a_stub_takes_little_memory(server_store: RedisStore, admin: Operator) -> None:
    """All of it: the name of the key, the server's own structures, and the stub."""
    await sealed(server_store)
    assert await admin.run("MEMORY", "USAGE", server_store.keys.stream(SESSION)) <= STUB_BYTES


# --- lost answers -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", LOSSES)
@pytest.mark.parametrize("times", [1, 3])
async def test_a_seal_whose_answer_was_lost_counts_once(
    proxy: Proxy, far_store: RedisStore, fault: Fault, times: int
) -> None:
    seal = seal_of(await three(far_store))
    lines = len((await far_store.read_feed(range(far_store.partition_count), "views", "one", 10)).items)
    proxy.lose("EVALSHA", fault, times=times)
    assert await far_store.seal(SESSION, seal)
    assert await seals(far_store, [SESSION]) == [seal]
    told = (await far_store.read_feed(range(far_store.partition_count), "views", "one", 10)).items
    assert (lines, len(told)) == (1, 1)


@pytest.mark.parametrize("fault", LOSSES)
@pytest.mark.parametrize("after", range(4))
async def test_an_unseal_whose_answers_were_lost_brings_back_every_entry_once(
    proxy: Proxy, far_store: RedisStore, fault: Fault, after: int
) -> None:
    """Three slices and the last step."""
    await written(far_store, *[b"d"] * 600)
    log = await log_of(far_store)
    assert await far_store.seal(SESSION, seal_of(log))
    await load_scripts(far_store)
    proxy.lose("EVALSHA", fault, after=after)
    assert await far_store.restore(SESSION, seal_of(log), log, None)
    assert await log_of(far_store) == log
    assert await far_store.restore(SESSION, seal_of(log), log, None)


@pytest.mark.slow
async def test_a_seal_without_any_answer_is_in_doubt_and_repeated_later(proxy: Proxy, impatient: RedisStore) -> None:
    log = await three(impatient)
    proxy.lose("EVALSHA", Fault.SILENCE, times=None)
    with pytest.raises(InDoubtError):
        await impatient.seal(SESSION, seal_of(log))
    proxy.heal()
    assert await impatient.seal(SESSION, seal_of(log))
    await load_scripts(impatient)
    proxy.lose("EVALSHA", Fault.SILENCE, times=None, after=1)
    with pytest.raises(InDoubtError):
        await impatient.restore(SESSION, seal_of(log), log, None)
    proxy.heal()
    assert await impatient.restore(SESSION, seal_of(log), log, None)
    assert await log_of(impatient) == log


# --- crashes ----------------------------------------------------------------------------------------------------------


async def test_what_a_process_that_died_midway_leaves_is_harmless_and_ends_by_itself(
    server_store: RedisStore, admin: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    seal, log = await sealed(server_store)

    async def died(*_: object) -> None:
        raise asyncio.CancelledError

    monkeypatch.setattr(sealing._Unsealing, "finish", died)
    monkeypatch.setattr(sealing._Unsealing, "close", died)
    with pytest.raises(asyncio.CancelledError):
        await server_store.restore(SESSION, seal, log, None)
    assert [0 < await admin.run("PTTL", one) <= COPY_LIVES_MS for one in await beside(admin)] == [True]
    assert [key async for key in streams_of(server_store)] == []
    assert [key async for key in streams_of(server_store, sealed=True)] == [SESSION]
    monkeypatch.undo()
    assert await server_store.restore(SESSION, seal, log, None)
    assert await log_of(server_store) == log


async def test_entries_that_are_lost_before_the_last_step_are_written_again(
    server_store: RedisStore, admin: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    seal, log = await sealed(server_store)
    copy = sealing._Unsealing.copy
    lost: list[bytes] = []

    async def copied_and_lost(one: sealing._Unsealing) -> None:
        await copy(one)
        if not lost:
            lost.extend(await beside(admin))
            await admin.run("DEL", *lost)

    monkeypatch.setattr(sealing._Unsealing, "copy", copied_and_lost)
    assert await server_store.restore(SESSION, seal, log, None)
    assert len(lost) == 1
    assert await log_of(server_store) == log


async def test_a_stream_that_came_back_has_no_time_to_live(server_store: RedisStore, admin: Operator) -> None:
    seal, log = await sealed(server_store)
    assert await admin.run("PTTL", server_store.keys.stream(SESSION)) == -1
    assert await server_store.restore(SESSION, seal, log, None)
    assert await admin.run("PTTL", server_store.keys.stream(SESSION)) == -1
    assert await beside(admin) == []


async def test_an_append_that_meets_a_stub_and_then_the_stream_is_written(
    server_store: RedisStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process brings the stream back between the refusal and the look at the stub."""
    seal, log = await sealed(server_store)
    look = RedisStore.seals

    async def after_another(store: RedisStore, keys: object) -> list[Seal | None]:
        monkeypatch.setattr(RedisStore, "seals", look)
        assert await server_store.restore(SESSION, seal, log, None)
        return await look(store, [SESSION])

    monkeypatch.setattr(RedisStore, "seals", after_another)
    assert (await written(server_store, b"four", after=seal.head)).version == 4


# --- replicas ---------------------------------------------------------------------------------------------------------


async def test_neither_seal_nor_unseal_counts_before_it_is_confirmed(server: RealServer) -> None:
    """There is no replica: the write is there, but who seals or brings back is told that it is in doubt."""
    async with opened(server.url) as plain, opened(server.url, Durability(wait_replicas=1, wait_ms=20)) as store:
        log = await three(plain)
        for _ in range(2):  # also the repeated one, which writes nothing
            with pytest.raises(InDoubtError, match="not confirmed yet"):
                await store.seal(SESSION, seal_of(log))
        for _ in range(2):
            with pytest.raises(InDoubtError, match="not confirmed yet"):
                await store.restore(SESSION, seal_of(log), log, None)
        assert await log_of(store) == log
        await written(plain, b"four", after=log[-1].position)
        assert not await store.seal(SESSION, seal_of(log)), "what was refused needs no confirmation"


# --- rights -----------------------------------------------------------------------------------------------------------


async def test_every_serving_process_brings_back_and_only_the_archiver_seals(start_server: StartServer) -> None:
    server = start_server()
    async with Redis.from_url(server.url, protocol=2) as client:
        for name, rights in (("ledger", LEAST_RIGHTS), ("archiver", SEALING_RIGHTS)):
            await Operator(client).run("ACL", "SETUSER", name, "on", ">word", *_rules(rights))
        async with opened(_of(server, "ledger")) as agent, opened(_of(server, "archiver")) as archiver:
            log = await three(agent)
            with pytest.raises(SetupError, match="does not let this user seal a stream"):
                await agent.seal(SESSION, seal_of(log))
            assert await log_of(agent) == log
            assert await beside(Operator(client)) == []
            assert await archiver.seal(SESSION, seal_of(log))
            assert await agent.restore(SESSION, seal_of(log), log, None)
            assert await log_of(agent) == log
            assert await archiver.seal(SESSION, seal_of(log))


async def test_who_may_not_bring_back_is_told_so_and_the_stub_stays(server_store: RedisStore, admin: Operator) -> None:
    seal, log = await sealed(server_store)
    await admin.run("ACL", "SETUSER", "default", "-renamenx")
    try:
        with pytest.raises(SetupError, match="does not let this user bring back a sealed stream"):
            await server_store.restore(SESSION, seal, log, None)
    finally:
        await admin.run("ACL", "SETUSER", "default", "+renamenx")
    assert await seals(server_store, [SESSION]) == [seal]
    assert await beside(admin) == []


def test_the_guide_lists_the_rights_that_sealing_needs() -> None:
    more = SEALING_RIGHTS.removeprefix(f"{LEAST_RIGHTS} ")
    assert f"  `{more}`\n" in text_of("docs/guides/operating.md")


def _rules(rights: str) -> list[str]:
    """Split at spaces, except within the parentheses of a selector."""
    return re.findall(r"\([^)]*\)|\S+", rights)


def _of(server: RealServer, user: str) -> str:
    return server.url.replace("unix://", f"unix://{user}:word@")


@asynccontextmanager
async def opened(url: str, durability: Durability | None = None) -> AsyncIterator[Store]:
    store = open_store(url, partition_count=PARTITION_COUNT, durability=durability)
    try:
        await store.start()
        yield store
    finally:
        await store.close()


@pytest.mark.slow
async def test_a_stream_of_a_hundred_thousand_entries_is_sealed_and_comes_back(server_store: RedisStore) -> None:
    head = START
    for _ in range(200):
        head = await written(server_store, *[(b"d" * 300, b"x" * 200)] * 500, after=head)
    log = await log_of(server_store)
    assert len(log) == 100_000
    assert await server_store.seal(SESSION, seal_of(log))
    assert await server_store.restore(SESSION, seal_of(log), log, None)
    assert await log_of(server_store) == log
