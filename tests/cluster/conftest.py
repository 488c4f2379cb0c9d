"""Servers that a test may kill, pause or disconnect."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack

import pytest

from ledger import Durability, Ledger
from tests.support.clusters import Cluster, Sentinels, pair

__all__ = ["pair"]

OpenLedger = Callable[..., Awaitable[Ledger]]


@pytest.fixture(scope="module")
def mortal_cluster() -> Iterator[Cluster]:
    """A cluster that tests break."""
    cluster = Cluster()
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.remove()


@pytest.fixture
def mortal(mortal_cluster: Cluster) -> Cluster:
    """`mortal_cluster`, complete and without data."""
    mortal_cluster.mend()
    mortal_cluster.flush()
    return mortal_cluster


@pytest.fixture(scope="module")
def shared_sentinels() -> Iterator[Sentinels]:
    sentinels = Sentinels()
    try:
        sentinels.start()
        yield sentinels
    finally:
        sentinels.remove()


@pytest.fixture
async def open_ledger() -> AsyncIterator[OpenLedger]:
    """`open_ledger(url, durability=…)`: any number, each with the connections of a process of its own."""
    async with AsyncExitStack() as opened:

        async def open_one(url: str, durability: Durability | None = None) -> Ledger:
            ledger = Ledger.connect(url, partitions=8, entry_points=False, durability=durability)
            return await opened.enter_async_context(ledger)

        yield open_one
