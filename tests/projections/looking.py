"""Shared queries of the tests of views."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from ledger import Approved, Ledger, Pending
from ledger.log.archive.archive import all_streams
from ledger.log.snapshots import SNAPSHOTS_VIEW
from ledger.policy import PolicySource, digest
from ledger.stores.port import StreamKey
from ledger.stores.store import Store
from projections.comparison import Compared, compare_partition
from projections.engine import Engine, project_anew
from tests.support.backends import view_names
from tests.support.store_calls import view

SNAPSHOT_EVERY: Final = 20
"""Events between two snapshots in the tests that have the fixture `soon`."""

RULES: Final = [
    {"permission": "read", "pattern": "*", "action": "allow"},
    {"permission": "bash", "pattern": "rm *", "action": "deny"},
]

RULES_OF_ALL: Final = StreamKey("policy", digest(PolicySource()))
"""The stream of the rules of sessions that are given none."""

Data = dict[tuple[int, str], dict[str, bytes]]


async def project_all(ledger: Ledger, engine: Engine | None = None) -> int:
    """Bring all views up to date; return the number of events that took."""
    engine = engine or Engine(ledger.store)
    return sum([(await engine.catch_up(key)).events for key in await streams(ledger.store)])


async def streams(store: Store) -> list[StreamKey]:
    return sorted([key async for key in all_streams(store)])


async def data_of(store: Store) -> Data:
    """Return every byte of every view, except snapshots and the census."""
    return {
        (partition, name): dict(await view(store, name, partition))
        for partition, name in await view_names(store)
        if name not in (SNAPSHOTS_VIEW, "census")
    }


async def rebuild_all(store: Store) -> None:
    keys = await streams(store)
    for partition in range(store.partition_count):
        own = [key for key in keys if key.partition(store.partition_count) == partition]
        assert await project_anew(store, Engine(store), partition, own) == []


async def differences(store: Store) -> list[Compared]:
    """Return the differences that `rebuild --verify` finds."""
    names = await store.views()
    return [
        one
        for partition in range(store.partition_count)
        async for one in compare_partition(store, partition, names.get(partition, []))
        if not one.same
    ]


def as_rows(values: Sequence[Pending | Approved]) -> list[dict[str, Any]]:
    """Return the views as a program reads them."""
    return [msgspec.json.decode(msgspec.json.encode(one.as_json())) for one in values]
