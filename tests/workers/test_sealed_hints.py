"""The expiry worker drops the hint of a deadline in a session that is sealed."""

from __future__ import annotations

import logging

import pytest

from ledger import Ledger
from ledger.stores.redis.store import RedisStore
from tests.support.backends import SESSION
from tests.support.sealing import sealed
from tests.support.servers import RealServer
from tests.support.store_calls import seals
from workers.expiry import Settler


async def test_a_hint_for_a_sealed_session_is_dropped_and_nothing_is_brought_back(
    server: RealServer, live_server_store: RedisStore, caplog: pytest.LogCaptureFixture
) -> None:
    store = live_server_store
    seal, _ = await sealed(store)
    await store.command("ZADD", store.keys.due(SESSION.partition(store.partition_count)), 900, SESSION.id)
    async with Ledger.connect(server.url) as ledger:
        with caplog.at_level(logging.ERROR, "workers"):
            await Settler(ledger).settle_due()
    assert await store.due(None, 10) == []
    assert await seals(store, [SESSION]) == [seal]
    assert "expiry" not in caplog.text
