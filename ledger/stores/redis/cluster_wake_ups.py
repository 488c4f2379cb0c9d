"""Wake-ups on a cluster, with one subscriber for each node and the partitions it holds.

A channel is on the node of its partition. When the partition moves (slot migration, failover, lost node), the channel
is subscribed on the new node, and the confirmation is reported as a gap. The read after the gap finds missed entries.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from redis.crc import key_slot

from ledger.stores.keys import Keys
from ledger.stores.port import Listener
from ledger.stores.redis.cluster_topology import Topology
from ledger.stores.redis.connection import Address, ServerConnection
from ledger.stores.redis.link import LinkError
from ledger.stores.redis.refusals import Refusal
from ledger.stores.redis.subscriber import Subscriber
from ledger.stores.redis.wake_ups import WakeUpDispatcher

LOOK_AGAIN_SECONDS = 0.1
"""Delay before looking again for a partition without a known node, or whose node was just lost."""


class ClusterWakeUps:
    """Subscriptions of this process to partitions' wake-ups, each on the node that holds the partition."""

    def __init__(
        self, topology: Topology, connect_to: Callable[[Address], Callable[[], ServerConnection]], keys: Keys
    ) -> None:
        self._topology = topology
        self._connect_to = connect_to
        self._dispatcher = WakeUpDispatcher(keys)
        self._keys = keys
        self._subscribers: dict[Address, Subscriber] = {}
        self._homes: dict[int, Address] = {}
        """The node of each partition's subscription, requested or confirmed."""
        self._look = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        topology.changed.append(self._look.set)

    def listen(self, listener: Listener) -> None:
        self._dispatcher.listen(listener)

    async def subscribe(self, partition: int) -> None:
        """Return when the subscription to this partition's wake-ups is confirmed."""
        confirmed, is_new = self._dispatcher.wanted(partition)
        if is_new:
            self._look.set()
            if self._task is None:
                self._task = asyncio.create_task(self._keep_homes(), name="ledger wake-ups homes")
        await confirmed.wait()

    async def close(self) -> None:
        with suppress(ValueError):
            self._topology.changed.remove(self._look.set)
        for task in [one for one in (self._task, *self._tasks) if one is not None]:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        for subscriber in list(self._subscribers.values()):
            await subscriber.close()

    # --- the node of each subscription ------------------------------------------------------------------------------

    async def _keep_homes(self) -> None:
        while True:
            await self._look.wait()
            self._look.clear()
            try:
                for partition in self._dispatcher.partitions:
                    await self._bring_home(partition)
                await self._close_idle()
            except LinkError:
                self._look_later()

    def _look_later(self) -> None:
        asyncio.get_running_loop().call_later(LOOK_AGAIN_SECONDS, self._look.set)

    async def _bring_home(self, partition: int) -> None:
        address = await self._topology.address_of(self._slot(partition))
        home = self._homes.get(partition)
        if home == address:
            return
        channel = self._keys.channel(partition)
        if home in self._subscribers:
            await self._subscribers[home].drop(channel)
        self._homes[partition] = address
        await self._subscriber_at(address).add(channel)

    def _slot(self, partition: int) -> int:
        return int(key_slot(self._keys.channel(partition).encode()))

    def _subscriber_at(self, address: Address) -> Subscriber:
        subscriber = self._subscribers.get(address)
        if subscriber is None:
            subscriber = self._subscribers[address] = Subscriber(
                self._connect_to(address),
                partial(self._take, address),
                refused=partial(self._refused, address),
                broken=self._broken,
            )
        return subscriber

    async def _close_idle(self) -> None:
        """Close the connections to nodes without a subscription."""
        for address, subscriber in list(self._subscribers.items()):
            if not subscriber.channels:
                del self._subscribers[address]
                await subscriber.close()

    # --- messages of subscribers ------------------------------------------------------------------------------------

    def _take(self, address: Address, message: list[Any]) -> None:
        if message[0] == b"sunsubscribe":
            if message[1] is not None:
                self._lost(self._keys.partition_of_channel(message[1]), address)
        else:
            self._dispatcher.take(message)

    def _lost(self, partition: int, address: Address) -> None:
        """Look for the partition's new node, unless we ended the subscription ourselves."""
        if self._homes.get(partition) != address:
            return
        del self._homes[partition]
        self._subscribers[address].channels.pop(self._keys.channel(partition), None)
        self._do(self._look_anew())

    def _refused(self, address: Address, refusal: Refusal) -> bool:
        """Follow a redirection of a subscription; return False for any other refusal, after which to reconnect."""
        if refusal.code != "MOVED":
            return False
        slot = refusal.redirection[0]
        for partition in self._dispatcher.partitions:
            if self._slot(partition) == slot and self._homes.get(partition) == address:
                del self._homes[partition]
                self._subscribers[address].channels.pop(self._keys.channel(partition), None)
        self._do(self._follow(refusal, address))
        return True

    async def _follow(self, moved: Refusal, address: Address) -> None:
        with suppress(LinkError):
            await self._topology.moved(moved, address)
        self._look_later()

    async def _look_anew(self) -> None:
        with suppress(LinkError):
            await self._topology.refresh()
        # The asked node may have a stale slot map; the subscription is then refused with the new address.
        self._look_later()

    async def _broken(self) -> None:
        with suppress(LinkError):
            await self._topology.refresh()
        self._look.set()

    def _do(self, work: Any) -> None:
        task: asyncio.Task[None] = asyncio.create_task(work, name="ledger wake-ups look")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
