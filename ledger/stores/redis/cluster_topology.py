"""The slot map of a cluster, cached by redis-py and refreshed after a redirection."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

from redis.asyncio.cluster import RedisCluster
from redis.exceptions import (
    AuthenticationError,
    MovedError,
    RedisClusterException,
    RedisError,
    ResponseError,
)

from ledger.core.errors import SetupError
from ledger.stores.redis.connection import Address
from ledger.stores.redis.link import LinkError
from ledger.stores.redis.refusals import Refusal

log = logging.getLogger(__name__)

CLOSE_SECONDS = 5.0

_FAILURES = (RedisError, RedisClusterException, OSError)
"""Errors of a refresh; `RedisClusterException` is no subclass of `RedisError`."""


class Topology:
    """The known nodes. `make` creates a client that starts with the nodes of the URL."""

    def __init__(self, make: Callable[[], RedisCluster]) -> None:
        self._make = make
        self._cluster = make()
        self._known = False
        self._primaries: list[Address] | None = None
        self._refreshing: asyncio.Task[None] | None = None
        self._is_closed = False
        self.changed: list[Callable[[], None]] = []

    async def address_of(self, slot: int | None) -> Address:
        """Return the node that holds a slot; for None any node that holds one. Raises LinkError."""
        if slot is None:
            return (await self.primaries())[0]
        if not self._known:
            await self.refresh()
        holders = self._cluster.nodes_manager.slots_cache.get(slot)
        if not holders:
            await self.refresh()
            raise LinkError(f"no node of the cluster holds slot {slot}", sent=False)
        return (str(holders[0].host), int(holders[0].port))

    async def primaries(self) -> list[Address]:
        """Return the nodes that hold slots, in a fixed order. Raises LinkError."""
        if not self._known:
            await self.refresh()
        if self._primaries is None:
            # The slots of one range share one list of holders.
            holders = {id(nodes): nodes for nodes in self._cluster.nodes_manager.slots_cache.values() if nodes}
            self._primaries = sorted({(str(nodes[0].host), int(nodes[0].port)) for nodes in holders.values()})
        return self._primaries

    async def refresh(self) -> None:
        """Refresh the slot map; concurrent calls share one refresh.

        Raises LinkError when no node answers, and after `close`: a command that `close` cut off asks for a refresh,
        whose connections nobody would close.
        """
        if self._is_closed:
            raise LinkError("the connection was closed", sent=False)
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = asyncio.create_task(self._learn(), name="ledger topology")
            self._refreshing.add_done_callback(_retrieve)
        await asyncio.shield(self._refreshing)

    async def moved(self, refusal: Refusal, told_by: Address) -> None:
        """Apply a redirection (MOVED) from the node `told_by`."""
        manager = self._cluster.nodes_manager
        slot, host, port = refusal.redirection
        if not host or slot not in manager.slots_cache:
            # A node without a configured hostname sends a port only.
            log.info("node %s:%s says that slot %s has moved; refreshing the slot map", *told_by, slot)
            await self.refresh()
            return
        await manager.move_slot(MovedError(f"{slot} {host}:{port}"))
        self._tell()

    async def close(self) -> None:
        self._is_closed = True
        # redis-py leaks connections when its refresh is cancelled, so the refresh runs to its end.
        if self._refreshing is not None:
            with suppress(asyncio.CancelledError, TimeoutError, LinkError, SetupError):
                async with asyncio.timeout(CLOSE_SECONDS):
                    await self._refreshing
        await _close(self._cluster)

    async def _learn(self) -> None:
        try:
            await self._cluster.nodes_manager.initialize()
        except _FAILURES as error:
            await self._begin_anew(error)
        self._known = True
        self._tell()

    async def _begin_anew(self, error: Exception) -> None:
        """Start again from the URL's nodes: none of the known ones answers, and DNS may name others now."""
        fresh = self._make()
        try:
            await fresh.nodes_manager.initialize()
        except _FAILURES as again:
            await _close(fresh)
            if "Cluster mode is not enabled" in str(again):
                raise SetupError("this server is not a cluster node; write redis:// in the URL") from again
            raise LinkError(
                f"no node of the cluster answers: {again}", sent=False, refused=_refusal_in(again)
            ) from error
        gone, self._cluster = self._cluster, fresh
        await _close(gone)

    def _tell(self) -> None:
        self._primaries = None
        for listener in self.changed:
            listener()


async def _close(cluster: RedisCluster) -> None:
    # The known nodes and the startup nodes may be different objects for the same address.
    for nodes in ("nodes_cache", "startup_nodes"):
        with suppress(*_FAILURES):
            await cluster.nodes_manager.aclose(nodes)


def _retrieve(task: asyncio.Task[None]) -> None:
    """Retrieve the task's exception: if all waiters were cancelled, asyncio would log it as never retrieved."""
    if not task.cancelled():
        task.exception()


def _refusal_in(error: BaseException | None) -> Refusal | None:
    """Return the server's refusal of a connection, which redis-py wraps into a network error."""
    while error is not None:
        if isinstance(error, AuthenticationError | ResponseError):
            return Refusal(" ".join(filter(None, (error.status_code, str(error)))))
        error = error.__cause__
    return None
