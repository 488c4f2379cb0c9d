"""A projector for tests that has come to everything when it returns."""

from __future__ import annotations

from ledger import Ledger
from ledger.stores.admin import PROJECTORS
from workers.projector.worker import CatchingUp

LINES_COUNT = 1000


async def project_as_a_worker(ledger: Ledger) -> None:
    """Project everything, acknowledge the feeds, and finish a census of all partitions."""
    store, everywhere = ledger.store, range(ledger.store.partition_count)
    await store.admin.begin_census(everywhere, "test")
    await CatchingUp(ledger).catch_up_all([key async for key in store.streams()])
    await store.admin.end_census(everywhere, "test")
    items = await store.read_feed(everywhere, PROJECTORS, "test", LINES_COUNT)
    await store.acknowledge(PROJECTORS, items)
