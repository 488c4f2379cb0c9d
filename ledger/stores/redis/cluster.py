"""Commands and wake-ups on a Redis or Valkey Cluster, each at the node that holds its partition.

redis-py's cluster client provides the slot map; commands travel on our pipelining links, one for each
node. After MOVED, ASK or TRYAGAIN a command did not run, and is sent again to the node that serves it. The store
retries after CLUSTERDOWN and broken connections. Each node has one subscriber.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from typing import Any

from redis.asyncio.cluster import RedisCluster
from redis.crc import key_slot
from redis.exceptions import (
    AuthenticationError,
    MovedError,
    RedisClusterException,
    RedisError,
    ResponseError,
)

from ledger.core.errors import SetupError
from ledger.stores.keys import Keys
from ledger.stores.redis.link import (
    Address,
    CommandLine,
    Commands,
    ConfirmedLink,
    Link,
    LinkError,
    Revive,
    ServerConnection,
    WakeUps,
)
from ledger.stores.redis.replies import Refusal
from ledger.stores.redis.wake_ups import Subscriber, WakeUpDispatcher
from ledger.stores.store import Listener

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

    async def moved(self, refusal: Refusal, refused_by: Address) -> None:
        """Apply a redirection (MOVED) from the node `refused_by`."""
        manager = self._cluster.nodes_manager
        slot, host, port = refusal.redirection
        if not host or slot not in manager.slots_cache:
            # A node without a configured hostname sends a port only.
            log.info("node %s:%s says that slot %s has moved; refreshing the slot map", *refused_by, slot)
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


REDIRECTIONS_MAX = 8
"""Redirections of one command before the cluster counts as unreachable."""

TRY_AGAIN_SECONDS = 0.05

SLOTS_KEPT_COUNT = 1024

ConnectTo = Callable[[Address], Callable[[], ServerConnection]]

_KEYLESS = frozenset(
    (
        "ASKING",
        "BGREWRITEAOF",
        "BGSAVE",
        "CLUSTER",
        "CONFIG",
        "EXEC",
        "INFO",
        "MULTI",
        "PING",
        "ROLE",
        "SCRIPT",
        "SLOWLOG",
        "TIME",
        "WAIT",
        "WAITAOF",
    )
)
_KEY_AT = {"EVALSHA": 3, "XINFO": 2, "XGROUP": 2, "MEMORY": 2}


def slot_of_command(command: CommandLine) -> int | None:
    """Return the slot of a command's key; None for a command that any node can answer."""
    name = command[0]
    if name in _KEYLESS:
        return None
    if name == "XREADGROUP":
        return slot_of(command[command.index("STREAMS") + 1])
    if name == "SCAN":
        return slot_of(command[command.index("MATCH") + 1])
    return slot_of(command[_KEY_AT.get(name, 1)])


@lru_cache(maxsize=SLOTS_KEPT_COUNT)
def slot_of(key: str | bytes) -> int:
    return int(key_slot(key.encode() if isinstance(key, str) else key))


class _Chunk:
    """Consecutive commands of one slot, sent and redirected together."""

    __slots__ = ("ask", "commands", "first", "slot")

    def __init__(self, slot: int | None, first: int) -> None:
        self.slot = slot
        self.first = first
        self.commands: list[CommandLine] = []
        self.ask: Address | None = None
        """The node that imports the slot and already has these keys."""

    def places(self) -> range:
        return range(self.first, self.first + len(self.commands))


def _chunks_of(commands: Sequence[CommandLine]) -> list[_Chunk]:
    """Split by slot; a command without a key follows its predecessor (EXEC, WAIT), the first its successor (MULTI)."""
    chunks: list[_Chunk] = []
    for index, command in enumerate(commands):
        slot = slot_of_command(command)
        if not chunks:
            chunks.append(_Chunk(slot, index))
        elif slot is not None and chunks[-1].slot is None:
            chunks[-1].slot = slot
        elif slot is not None and slot != chunks[-1].slot:
            chunks.append(_Chunk(slot, index))
        chunks[-1].commands.append(command)
    return chunks


def _leading(addresses: Sequence[Address]) -> int:
    """Return the length of the leading run of equal addresses."""
    return next((index for index, one in enumerate(addresses) if one != addresses[0]), len(addresses))


class ClusterLink(Commands):
    """The cluster's counterpart of `Link`: replies come in the order of the commands, whichever nodes run them."""

    def __init__(self, topology: Topology, make: Callable[[Address], Commands]) -> None:
        self._topology = topology
        self._make = make
        self._links: dict[Address, Commands] = {}

    async def run(self, commands: Sequence[CommandLine], *, in_order: bool = False) -> list[Any]:
        """Return the replies in order; a server's refusal is a Refusal among them. Raises LinkError.

        Nodes work concurrently, unless `in_order` demands that each waits for the one before.
        """
        replies: list[Any] = [None] * len(commands)
        waiting = _chunks_of(commands)
        redirections = 0
        while waiting:
            addresses = [chunk.ask or await self._topology.address_of(chunk.slot) for chunk in waiting]
            now = _leading(addresses) if in_order else len(waiting)
            sent, later = waiting[:now], waiting[now:]
            try:
                await self._send(sent, addresses[:now], replies)
                again = [index for index, chunk in enumerate(sent) if await self._redirected(chunk, replies)]
            except LinkError as error:
                # Commands before the failure have run; the caller is in doubt if its write is one of them.
                raise LinkError(str(error), sent=error.sent or _wrote(commands, replies)) from error
            if again:
                redirections += 1
                if redirections > REDIRECTIONS_MAX:
                    raise LinkError("the cluster does not settle who serves a slot", sent=_wrote(commands, replies))
            waiting = ([*sent[again[0] :]] if again else []) + later if in_order else [sent[one] for one in again]
        return replies

    async def _send(self, chunks: Sequence[_Chunk], addresses: Sequence[Address], replies: list[Any]) -> None:
        groups: dict[Address, list[_Chunk]] = {}
        for chunk, address in zip(chunks, addresses, strict=True):
            groups.setdefault(address, []).append(chunk)
        runs = [self._send_to(address, group, replies) for address, group in groups.items()]
        outcomes = await asyncio.gather(*runs, return_exceptions=True)
        failures = [one for one in outcomes if isinstance(one, BaseException)]
        if failures:
            raise failures[0]

    async def _send_to(self, address: Address, chunks: Sequence[_Chunk], replies: list[Any]) -> None:
        lines: list[CommandLine] = []
        places: list[int | None] = []
        for chunk in chunks:
            for index, command in enumerate(chunk.commands, chunk.first):
                if chunk.ask is not None and slot_of_command(command) is not None:
                    lines.append(("ASKING",))
                    places.append(None)
                lines.append(command)
                places.append(index)
        answers = await self._run_at(address, lines)
        for place, answer in zip(places, answers, strict=True):
            if place is not None:
                replies[place] = answer

    async def _run_at(self, address: Address, commands: Sequence[CommandLine]) -> list[Any]:
        link = self._links.get(address)
        if link is None:
            link = self._links[address] = self._make(address)
        try:
            return await link.run(commands, in_order=True)
        except LinkError:
            # The node may be gone for good: refresh the topology before the next attempt.
            with suppress(LinkError):
                await self._topology.refresh()
                await self._forget(address)
            raise

    async def _forget(self, address: Address) -> None:
        """Close the link to a node that holds no slots any more."""
        if address not in await self._topology.primaries():
            link = self._links.pop(address, None)
            if link is not None:
                await link.close()

    async def _redirected(self, chunk: _Chunk, replies: Sequence[Any]) -> bool:
        """Return whether a node redirected these commands; record the new address."""
        refused_by = chunk.ask or await self._topology.address_of(chunk.slot)
        for place in chunk.places():
            match replies[place]:
                case Refusal(code="MOVED") as moved:
                    chunk.ask = None
                    await self._topology.moved(moved, refused_by)
                    return True
                case Refusal(code="ASK") as ask if ("MULTI",) not in chunk.commands:
                    _, host, port = ask.redirection
                    chunk.ask = (host or refused_by[0], port)
                    return True
                case Refusal(code="ASK" | "TRYAGAIN"):
                    # Some of the keys are being migrated. (ASKING does not work in a transaction.)
                    chunk.ask = None
                    await asyncio.sleep(TRY_AGAIN_SECONDS)
                    return True
                case Refusal(code="CLUSTERDOWN" | "MASTERDOWN") as down:
                    with suppress(LinkError):
                        await self._topology.refresh()
                    raise LinkError(f"the cluster is down: {down}", sent=False)
                case _:
                    pass
        return False

    async def everywhere(self) -> list[Commands]:
        """Return a link to every current primary, for commands that all of them must run. Raises LinkError."""
        await self._topology.refresh()
        return [self._link_to(address) for address in await self._topology.primaries()]

    def replica(self, address: Address) -> Commands:
        return self._link_to(address)

    def _link_to(self, address: Address) -> Commands:
        return self._links.get(address) or self._links.setdefault(address, self._make(address))

    async def close(self) -> None:
        for link in self._links.values():
            await link.close()
        self._links.clear()


def _wrote(commands: Sequence[CommandLine], replies: Sequence[Any]) -> bool:
    return any(
        command[0] == "EVALSHA" and reply is not None and not isinstance(reply, Refusal)
        for command, reply in zip(commands, replies, strict=True)
    )


class Cluster:
    """An implementation of `ledger.stores.redis.link.Servers` over the nodes of a cluster."""

    others_take_over = True

    def __init__(self, topology: Topology, connect_to: ConnectTo) -> None:
        self._topology = topology
        self._connect_to = connect_to

    def commands(self, answer_seconds: float, *, confirmed: bool = False) -> Commands:
        def make(address: Address) -> Commands:
            link = Link(self._connect_to(address), answer_seconds)
            return ConfirmedLink(link) if confirmed else link

        return ClusterLink(self._topology, make)

    def wake_ups(self, keys: Keys, revive: Revive | None) -> WakeUps:
        return ClusterWakeUps(self._topology, self._connect_to, keys)

    async def close(self) -> None:
        await self._topology.close()
