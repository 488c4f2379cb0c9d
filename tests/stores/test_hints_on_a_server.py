"""Hints on a real server, as another program may have written them."""

from __future__ import annotations

from ledger.core.events import Presence
from ledger.stores.redis.store import RedisStore


async def test_a_lease_that_is_no_text_is_read_and_dropped_like_any_other(server_store: RedisStore) -> None:
    await server_store.lease("ses_1", Presence("laptop", "ann"), 60_000)
    score = server_store.clock.now_ms() + 60_000
    await server_store.command("ZADD", server_store.keys.lease("ses_1"), score, b"phone\n\xff\xfe")
    assert set((await server_store.leases(["ses_1"]))[0]) == {Presence("laptop", "ann"), Presence("phone", "��")}
    await server_store.lease("ses_1", Presence("phone", ""), 0)
    assert await server_store.leases(["ses_1"]) == [(Presence("laptop", "ann"),)]
