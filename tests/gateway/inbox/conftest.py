"""Real pages: one Chromium for all tests of this folder, a gateway of its own for each."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from redis.asyncio import Redis

from tests.gateway.inbox.fixtures import browser, inbox
from tests.support.backends import Operator
from tests.support.browsers import browser_left_out
from tests.support.servers import RealServer

__all__ = ["browser", "inbox"]

collect_ignore_glob = [] if browser_left_out() is None else ["test_*.py"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the tests that share the browser on its loop, to which Playwright's objects belong."""
    for item in items:
        if "/gateway/inbox/" in item.path.as_posix():
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


@pytest_asyncio.fixture(loop_scope="session")
async def admin(server: RealServer) -> AsyncIterator[Operator]:
    """A connection to the server without the ledger, in the browser's event loop."""
    async with Redis.from_url(server.url, protocol=2) as client:
        yield Operator(client)
