"""A projector for tests that has come to everything when it returns."""

from __future__ import annotations

from ledger import Ledger
from ledger.log.archive.archive import all_streams
from ledger.stores.keys import PROJECTORS
from projections.lag import StreamWalk
from workers.projector import CatchingUp

LINES_COUNT = 1000


async def project_as_a_worker(ledger: Ledger) -> None:
    """Project everything, acknowledge the feeds, and finish a census of all partitions."""
    store, everywhere, worker = ledger.store, range(ledger.store.partition_count), CatchingUp(ledger)
    await worker.catch_up_all([key async for key in all_streams(store)])
    walk = StreamWalk(store, worker.catch_up_all)
    while not (await walk.step()).ended:
        pass
    items = (await store.read_feed(everywhere, PROJECTORS, "test", LINES_COUNT)).items
    await store.acknowledge(PROJECTORS, items)
