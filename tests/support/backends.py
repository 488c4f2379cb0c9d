"""Backends of store tests: the memory, a real server, or a cluster; several stores may share one, as processes do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pytest
from redis.asyncio import Redis

from ledger.core.codec import EntryFields
from ledger.core.events import Presence
from ledger.stores.memory import MemoryServer, MemoryStore
from ledger.stores.port import (
    START,
    Append,
    Appended,
    AppendResult,
    Due,
    Entry,
    FreezeFlag,
    Position,
    StreamKey,
    Unverified,
)
from ledger.stores.redis.store import RedisStore
from ledger.stores.store import Clock, Store, append_to
from ledger.stores.urls import open_store
from tests.support.clusters import Cluster
from tests.support.programs import CLUSTER, EMBEDDED, MEMORY, binary_named, others_to_test, servers_to_test
from tests.support.servers import RealServer

PARTITION_COUNT: Final = 8
"""The number of partitions; small, so that calls to all partitions stay cheap."""

SERVER: Final = str(binary_named(EMBEDDED)).replace(" ", "-")
OTHER_SERVERS: Final = tuple(pytest.param(name, marks=pytest.mark.other_server) for name in others_to_test())
BACKENDS: Final = (
    tuple(
        param
        for name, params in (
            (MEMORY, (MEMORY,)),
            (EMBEDDED, (SERVER,)),
            (CLUSTER, (pytest.param(CLUSTER, marks=pytest.mark.cluster),)),
        )
        if name in servers_to_test()
        for param in params
    )
    + OTHER_SERVERS
)

SESSION: Final = StreamKey("session", "ses_1")
PROJECT: Final = StreamKey("project", "shop")


class Backend:
    """Opens stores on one server; `clock` None is the server's own clock."""

    def __init__(self, server: RealServer | Cluster | None, clock: Clock | None) -> None:
        self._server = server
        self._clock = clock
        self._memory = MemoryServer(clock, PARTITION_COUNT)
        self._opened: list[Store] = []

    @property
    def is_memory(self) -> bool:
        return self._server is None

    async def open(self) -> Store:
        """Open a started store, as a process of its own has it."""
        store = self._made()
        self._opened.append(store)
        await store.start()
        return store

    def _made(self) -> Store:
        if self._server is None:
            return MemoryStore(self._memory)
        return open_store(self._server.url, clock=self._clock, partition_count=PARTITION_COUNT)

    async def close(self) -> None:
        for store in self._opened:
            await store.close()


def append_of(
    *payloads: bytes | EntryFields,
    key: StreamKey = SESSION,
    after: Position = START,
    due: Due | str | None = None,
    window: tuple[int | None, int | None] = (None, None),
    present: tuple[Presence, ...] | None = None,
) -> Append:
    fields = tuple((one, None) if isinstance(one, bytes) else one for one in payloads)
    early, late = window
    return Append(
        key=key, after=after, payloads=fields, due=due, not_before_ms=early, not_after_ms=late, present=present
    )


async def written(
    store: Store,
    *payloads: bytes | EntryFields,
    key: StreamKey = SESSION,
    after: Position = START,
    due: Due | str | None = None,
) -> Position:
    """Append without a conflict, and return the position of the last entry."""
    answer = await answer_to(store, append_of(*payloads, key=key, after=after, due=due))
    assert isinstance(answer, Appended), answer
    return Position(answer.ms, after.version + len(payloads))


async def answer_to(store: Store, append: Append) -> AppendResult:
    answer, beside = await append_to(store, append)
    assert beside == ()
    return answer


async def compare_flag(store: Store, key: StreamKey = SESSION) -> None:
    """Compare the flag of a stream's partition with a stream of freezes that is empty, as its first allow does."""
    names = (StreamKey("access", f"probe-{number}") for number in range(10_000))
    probe = next(one for one in names if one.partition(store.partition_count) == key.partition(store.partition_count))
    append = Append(key=probe, after=START, payloads=((b"probe", None),), allows=True)
    answer = await answer_to(store, append)
    if isinstance(answer, Unverified):
        await store.set_flags(FreezeFlag(START, {}), answer.server)


async def log_of(store: Store, key: StreamKey = SESSION) -> tuple[Entry, ...]:
    """Return all entries, read page by page."""
    entries: list[Entry] = []
    after = START
    while page := await store.read(key, after, 1000):
        entries += page
        after = page[-1].position
    return tuple(entries)


def at(version: int) -> Position:
    """Return some entry of a version."""
    return Position(1_800_000_000_000 + version, version)


def entries(ms: int, first_version: int, payloads: Sequence[bytes]) -> tuple[Entry, ...]:
    return tuple(Entry(ms, first_version + index, payload) for index, payload in enumerate(payloads))


def as_redis(store: Store) -> RedisStore:
    """Return the store of a real server, for checks that only such a store allows; below the archive of a ledger's."""
    below = getattr(store, "_inner", store)
    assert isinstance(below, RedisStore)
    return below


class Operator:
    """A plain client of a real server, as an operator or an attacker has."""

    def __init__(self, client: Redis) -> None:
        self._client = client

    async def run(self, *command: bytes | str | float) -> Any:
        return await self._client.execute_command(*command)  # type: ignore[no-untyped-call]


async def view_names(store: Store) -> set[tuple[int, str]]:
    """Return partition and name of every view that is not empty."""
    names = await store.views()
    return {(partition, name) for partition, found in names.items() for name in found}
