"""A ledger on every store in turn, on the test's clock."""

from __future__ import annotations

from collections.abc import AsyncIterator
from uuid import uuid4

import pytest

from ledger import Ledger
from ledger.log import fresh_folds, snapshots
from ledger.session.state import SETTLED_PACKING
from ledger.testing import TestClock
from projections import comparison
from projections import engine as engine_module
from tests.projections.looking import SNAPSHOT_EVERY
from tests.support.backends import PARTITION_COUNT
from tests.support.servers import RealServer


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Snapshots every 20 events, whatever they take, and packed requests in a session of so few."""
    monkeypatch.setattr(snapshots, "_EVENT_BYTES", 1024 * 1024)
    monkeypatch.setattr(SETTLED_PACKING, "whole_max", 12)
    monkeypatch.setattr(SETTLED_PACKING, "block", 8)
    for module in (snapshots, engine_module, fresh_folds, comparison):
        monkeypatch.setattr(module, "SNAPSHOT_EVERY_EVENTS", SNAPSHOT_EVERY)
    monkeypatch.setattr(engine_module, "STEP_EVENTS", 10)


@pytest.fixture
def url(storage: RealServer | None) -> str:
    return f"memory://{uuid4().hex}" if storage is None else storage.url


@pytest.fixture
async def ledger(url: str, clock: TestClock) -> AsyncIterator[Ledger]:
    async with Ledger.connect(url, clock=clock, partitions=PARTITION_COUNT, entry_points=False) as ledger:
        yield ledger
