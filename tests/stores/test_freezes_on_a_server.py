"""Flags on a real server: one that started anew, or lost its flags, allows nothing before they are set again."""

from __future__ import annotations

from typing import Any, Final

from ledger.core.freezes import Freeze
from ledger.stores.port import START, Appended, Blocked, FreezeFlag, Position, StreamKey, Unverified
from ledger.stores.redis.store import RedisStore
from tests.stores.test_conformance_freezes import allow, allowing
from tests.support.backends import Backend, Operator, answer_to, as_redis
from tests.support.servers import RealServer

EVERYTHING: Final = Freeze(by="ann", at_ms=1)
OTHER: Final = StreamKey("session", "other")


def frozen(version: int = 1) -> FreezeFlag:
    return FreezeFlag(Position(version, version), {"all": EVERYTHING.encoded()})


async def test_a_deployment_that_was_never_frozen_is_compared_with_the_stream_once(
    server_store: RedisStore, server_backend: Backend
) -> None:
    first = await answer_to(server_store, allowing())
    assert isinstance(first, Unverified)
    await server_store.set_flags(FreezeFlag(START, {}), first.server)
    assert isinstance(await answer_to(server_store, allowing()), Appended)
    # In all partitions, and for every process.
    other = await server_backend.open()
    assert isinstance(await answer_to(other, allowing(key=OTHER)), Appended)


async def test_a_freeze_that_is_set_without_a_comparison_does_not_vouch_for_the_flag(server_store: RedisStore) -> None:
    await server_store.set_flags(FreezeFlag(START, {}))
    assert isinstance(await answer_to(server_store, allowing()), Unverified)


async def test_a_comparison_with_another_server_does_not_vouch_for_this_one(server_store: RedisStore) -> None:
    await server_store.set_flags(FreezeFlag(START, {}), "0" * 40)
    assert isinstance(await answer_to(server_store, allowing()), Unverified)


async def test_a_flag_that_somebody_deleted_allows_nothing(server_store: RedisStore, admin: Operator) -> None:
    await allow(server_store, allowing())
    await server_store.set_flags(frozen())
    key = server_store.keys.freeze(OTHER.partition(server_store.partition_count))
    await admin.run("DEL", key)
    answer = await answer_to(server_store, allowing(key=OTHER))
    assert isinstance(answer, Unverified)
    await server_store.set_flags(frozen(), answer.server)
    assert isinstance(await answer_to(server_store, allowing(key=OTHER)), Blocked)


async def test_a_server_that_started_again_allows_nothing_before_its_flags_are_compared(start_server: Any) -> None:
    """It may have been restored from a file of before the freeze."""
    server: RealServer = start_server()
    backend = Backend(server, None)
    try:
        store = as_redis(await backend.open())
        await allow(store, allowing())
        server.restart()
        assert isinstance(await answer_to(store, allowing(key=OTHER)), Unverified)
    finally:
        await backend.close()


async def test_a_flag_of_a_later_entry_stays_when_it_is_compared_with_a_shorter_stream(
    server_store: RedisStore,
) -> None:
    """The stream has lost entries, and the flag is the only witness of a freeze."""
    answer = await answer_to(server_store, allowing())
    assert isinstance(answer, Unverified)
    await server_store.set_flags(frozen(5))
    await server_store.set_flags(FreezeFlag(Position(2, 2), {}), answer.server)
    assert isinstance(await answer_to(server_store, allowing()), Blocked)


async def test_flags_are_set_on_a_server_that_lacks_the_script(server_store: RedisStore, admin: Operator) -> None:
    await admin.run("SCRIPT", "FLUSH")
    await server_store.set_flags(frozen())
    assert {one.at for one in await server_store.flags() if one} == {Position(1, 1)}
