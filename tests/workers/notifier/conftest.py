"""A ledger on a real server, by the test's own clock."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from ledger import Ledger
from ledger.testing import TestClock
from tests.support.servers import RealServer


@pytest.fixture
async def ledger(server: RealServer, clock: TestClock) -> AsyncIterator[Ledger]:
    async with Ledger.connect(server.url, clock=clock) as ledger:
        yield ledger
