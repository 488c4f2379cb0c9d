"""A ledger on every store in turn, on the test's clock."""

from __future__ import annotations

from collections.abc import AsyncIterator
from uuid import uuid4

import pytest

from ledger import Ledger
from ledger.testing import TestClock
from tests.support.backends import PARTITION_COUNT
from tests.support.servers import RealServer


@pytest.fixture
def url(storage: RealServer | None) -> str:
    return f"memory://{uuid4().hex}" if storage is None else storage.url


@pytest.fixture
async def ledger(url: str, clock: TestClock) -> AsyncIterator[Ledger]:
    async with Ledger.connect(url, clock=clock, partitions=PARTITION_COUNT, entry_points=False) as ledger:
        yield ledger
