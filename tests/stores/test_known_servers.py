"""The id of a server, which an append need not look up within a second over one connection."""

from __future__ import annotations

from typing import Any

import pytest

from ledger.core.freezes import Freeze
from ledger.stores.port import START, Appended, Blocked, FreezeFlag, Position, StreamKey, Unverified
from ledger.stores.redis import link
from ledger.stores.redis.store import RedisStore
from ledger.stores.store import append_to
from tests.stores.test_conformance_freezes import allow, allowing
from tests.support.backends import PROJECT, Backend, Operator, answer_to, as_redis
from tests.support.servers import RealServer


async def looked_up(admin: Operator) -> int:
    """Return how often the server was asked for its INFO."""
    stats = await admin.run("INFO", "commandstats")
    return int(stats.get("cmdstat_info", {}).get("calls", 0))


def other(number: int) -> StreamKey:
    return StreamKey("session", f"other-{number}")


async def test_a_server_is_looked_up_once_a_second_and_connection(
    live_server_store: RedisStore, admin: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    await allow(live_server_store, allowing())
    await answer_to(live_server_store, allowing(key=other(0)))
    before = await looked_up(admin)
    for number in range(1, 6):
        assert isinstance(await answer_to(live_server_store, allowing(key=other(number))), Appended)
    assert await looked_up(admin) == before + 1, "the one that counts them"
    monkeypatch.setattr(link, "SERVER_SECONDS", -1.0)
    live_server_store._link.note_server("0" * 40, live_server_store._link.connection)
    assert isinstance(await answer_to(live_server_store, allowing(key=other(9))), Appended)
    assert await looked_up(admin) == before + 3


async def test_an_append_beside_a_read_knows_the_server_too(live_server_store: RedisStore, admin: Operator) -> None:
    await allow(live_server_store, allowing())
    await append_to(live_server_store, allowing(key=other(0)), (PROJECT, START))
    before = await looked_up(admin)
    for number in range(1, 4):
        await append_to(live_server_store, allowing(key=other(number)), (PROJECT, START))
    assert await looked_up(admin) == before + 1


async def test_a_connection_that_was_made_anew_forgets_the_server(start_server: Any) -> None:
    server: RealServer = start_server()
    backend = Backend(server, None)
    try:
        store = as_redis(await backend.open())
        await allow(store, allowing())
        await answer_to(store, allowing(key=other(0)))
        assert store._link.server != ""
        server.restart()
        assert isinstance(await answer_to(store, allowing(key=other(1))), Unverified)
        assert store._link.server == ""
    finally:
        await backend.close()


async def test_a_known_server_still_obeys_its_flag(live_server_store: RedisStore) -> None:
    await allow(live_server_store, allowing())
    await answer_to(live_server_store, allowing(key=other(0)))
    everything = Freeze(by="ann", at_ms=1)
    await live_server_store.set_flags(FreezeFlag(Position(1, 1), {everything.reach: everything.encoded()}))
    assert isinstance(await answer_to(live_server_store, allowing(key=other(1))), Blocked)


async def test_a_wrong_idea_of_the_server_is_corrected_before_anything_is_allowed(
    live_server_store: RedisStore,
) -> None:
    await allow(live_server_store, allowing())
    live_server_store._link.note_server("0" * 40, live_server_store._link.connection)
    assert isinstance(await answer_to(live_server_store, allowing(key=other(1))), Appended)
