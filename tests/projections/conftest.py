"""A ledger on every store in turn, on the test's clock."""

from __future__ import annotations

from collections.abc import AsyncIterator
from uuid import uuid4

import pytest

from ledger import Ledger
from ledger.core import packed_records
from ledger.testing import TestClock
from projections import comparison
from projections import engine as engine_module
from tests.projections.looking import SNAPSHOT_EVERY
from tests.support.backends import PARTITION_COUNT
from tests.support.servers import RealServer
from tests.support.snapshots import write_snapshots_every


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Snapshots every 20 events, whatever they take, and packed requests in a session of so few."""
    write_snapshots_every(SNAPSHOT_EVERY, monkeypatch, comparison)
    monkeypatch.setattr(packed_records, "WHOLE_MAX_COUNT", 12)
    monkeypatch.setattr(engine_module, "STEP_EVENTS", 10)


@pytest.fixture
def url(storage: RealServer | None) -> str:
    return f"memory://{uuid4().hex}" if storage is None else storage.url


@pytest.fixture
async def ledger(url: str, clock: TestClock) -> AsyncIterator[Ledger]:
    async with Ledger.connect(url, clock=clock, partitions=PARTITION_COUNT, entry_points=False) as ledger:
        yield ledger
