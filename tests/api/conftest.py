"""Ledgers as programs open them: any number on one storage, as processes share a server, on the test's clock."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from uuid import uuid4

import pytest
from redis.asyncio import Redis

from ledger import Ledger
from ledger.testing import TestClock
from tests.api.actors import OpenLedger
from tests.support.backends import PARTITION_COUNT
from tests.support.servers import RealServer


@pytest.fixture
def url(storage: RealServer | None) -> str:
    """Return the URL of the ledger, on each store in turn."""
    return f"memory://{uuid4().hex}" if storage is None else storage.url


@pytest.fixture
async def open_ledger(url: str, clock: TestClock) -> AsyncIterator[OpenLedger]:
    """Open one more ledger on the same storage, as another process does."""
    async with AsyncExitStack() as stack:

        async def opened(**options: object) -> Ledger:
            settings = {"clock": clock, "partitions": PARTITION_COUNT, "entry_points": False, **options}
            connecting = Ledger.connect(url, **settings)  # type: ignore[arg-type]
            return await stack.enter_async_context(connecting)

        yield opened


@pytest.fixture
async def ledger(open_ledger: OpenLedger) -> Ledger:
    return await open_ledger()


@pytest.fixture
async def onlooker(server: RealServer) -> AsyncIterator[Redis]:
    """A plain client of the real server that counts the ledger's commands."""
    async with Redis.from_url(server.url, protocol=2) as client:
        yield client
