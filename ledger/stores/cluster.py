"""The same keys on a Redis or Valkey Cluster: every command goes to the node that holds its partition.

redis-py's cluster client knows the topology (and does TLS and AUTH); the connections that commands travel on are our
pipelining links, one a node. A command that a node does not serve (any more) is sent again to the one that does: MOVED,
ASK and TRYAGAIN say that it did not run. CLUSTERDOWN and broken connections are left to the store's patience.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from redis.asyncio.cluster import ClusterNode, RedisCluster
from redis.asyncio.connection import AbstractConnection
from redis.crc import key_slot
from redis.exceptions import AskError, ClusterDownError, MovedError, RedisError, SlotNotCoveredError, TryAgainError

from ledger.stores.link import Argument, CommandLine, Link, LinkError

log = logging.getLogger(__name__)

REDIRECTIONS_MAX = 8
"""Times one command is sent on before the cluster counts as not there."""

TRY_AGAIN_SECONDS = 0.05

Address = tuple[str, int]


def key_of(command: CommandLine) -> str | None:
    """The key that decides where a command runs; None for one that any node can answer."""
    name = command[0]
    if name == "EVALSHA":
        return str(command[3])
    if name in ("XINFO", "XGROUP", "MEMORY"):
        return str(command[2])
    if name == "XREADGROUP":
        return str(command[command.index("STREAMS") + 1])
    if name == "SCAN":
        return str(command[command.index("MATCH") + 1])
    if name in ("TIME", "INFO", "SCRIPT", "CONFIG", "MULTI", "EXEC", "PING", "CLUSTER"):
        return None
    return str(command[1])


@lru_cache(maxsize=8192)
def slot_of(key: str) -> int:
    return int(key_slot(key.encode()))


class Topology:
    """Which node holds which slot, by redis-py; refreshed when a node says that it is otherwise."""

    def __init__(self, cluster: RedisCluster) -> None:
        self._cluster = cluster
        self._refreshing = asyncio.Lock()
        self._known = False
        self.changed: list[Callable[[], None]] = []

    async def node_of(self, slot: int) -> ClusterNode:
        if not self._known:
            await self.refresh()
        try:
            return self._cluster.nodes_manager.get_node_from_slot(slot)
        except SlotNotCoveredError as error:
            await self.refresh()
            raise LinkError(f"no node of the cluster holds slot {slot}", sent=False) from error

    async def primaries(self) -> list[ClusterNode]:
        if not self._known:
            await self.refresh()
        return list(self._cluster.get_primaries())

    async def refresh(self) -> None:
        """Ask the nodes anew. Raises LinkError when none answers."""
        async with self._refreshing:
            try:
                if self._known:
                    await self._cluster.nodes_manager.initialize()
                else:
                    self._cluster = await self._cluster.initialize()
            except (RedisError, OSError) as error:
                raise LinkError(f"no node of the cluster answers: {error}", sent=False) from error
            self._known = True
        self._tell()

    async def moved(self, error: MovedError) -> None:
        """A node said where a slot has gone."""
        await self._cluster.nodes_manager.move_slot(error)
        self._tell()

    def _tell(self) -> None:
        for listener in self.changed:
            listener()

    async def close(self) -> None:
        await self._cluster.aclose()


def connector_of(node: ClusterNode) -> Callable[[], AbstractConnection]:
    def connect() -> AbstractConnection:
        connection: AbstractConnection = node.connection_class(**node.connection_kwargs)
        return connection

    return connect


class ClusterLink:
    """What `Link` is to one server: commands in, answers out in the same order, wherever their keys lie."""

    def __init__(self, topology: Topology, answer_seconds: float) -> None:
        self._topology = topology
        self._answer_seconds = answer_seconds
        self._links: dict[Address, Link] = {}

    async def run(self, commands: Sequence[CommandLine]) -> list[Any]:
        """The answers in order; a refusal of a server is a ResponseError among them. Raises LinkError."""
        replies: list[Any] = [None] * len(commands)
        open_indexes = list(range(len(commands)))
        for _ in range(REDIRECTIONS_MAX):
            await self._run_where_they_belong(commands, open_indexes, replies)
            open_indexes = [index for index in open_indexes if await self._is_to_be_sent_again(replies[index])]
            if not open_indexes:
                return replies
        raise LinkError("the cluster sends commands in a circle", sent=False)

    async def _run_where_they_belong(
        self, commands: Sequence[CommandLine], indexes: Sequence[int], replies: list[Any]
    ) -> None:
        groups: dict[Address, list[int]] = {}
        asking: list[int] = []
        for index in indexes:
            if isinstance(replies[index], AskError):
                asking.append(index)
            else:
                groups.setdefault(await self._address_of(commands, index), []).append(index)
        runs = [self._run_at(address, commands, group, replies) for address, group in groups.items()]
        asks = [self._ask_at(commands[index], index, replies) for index in asking]
        outcomes = await asyncio.gather(*runs, *asks, return_exceptions=True)
        failures = [one for one in outcomes if isinstance(one, BaseException)]
        if failures:
            # What other nodes answered is dropped: sending a command again is what the caller is prepared for.
            raise failures[0]

    async def _address_of(self, commands: Sequence[CommandLine], index: int) -> Address:
        """A command without a key goes where the next one with a key goes (SCRIPT LOAD, MULTI), else anywhere."""
        later = (key_of(command) for command in [*commands[index:], *reversed(commands[:index])])
        key = next((one for one in later if one is not None), None)
        if key is None:
            return _address((await self._topology.primaries())[0])
        return _address(await self._topology.node_of(slot_of(key)))

    async def _run_at(
        self, address: Address, commands: Sequence[CommandLine], group: Sequence[int], replies: list[Any]
    ) -> None:
        answers = await self._run_on(address, [commands[index] for index in group])
        for index, answer in zip(group, answers, strict=True):
            replies[index] = answer

    async def _ask_at(self, command: CommandLine, index: int, replies: list[Any]) -> None:
        redirection = replies[index]
        answers = await self._run_on((redirection.host, redirection.port), [("ASKING",), command])
        replies[index] = answers[1]

    async def _run_on(self, address: Address, commands: Sequence[CommandLine]) -> list[Any]:
        link = self._links.get(address)
        if link is None:
            node = await self._node_at(address)
            link = self._links.setdefault(address, Link(connector_of(node), self._answer_seconds))
        try:
            return await link.run(commands)
        except LinkError:
            # The node may be gone for good: learn who has taken its slots over before anybody tries again.
            await self._topology.refresh()
            raise

    async def _node_at(self, address: Address) -> ClusterNode:
        for node in await self._topology.primaries():
            if _address(node) == address:
                return node
        template = (await self._topology.primaries())[0]
        options = {**template.connection_kwargs, "host": address[0], "port": address[1]}
        return ClusterNode(connection_class=template.connection_class, **options)

    async def _is_to_be_sent_again(self, reply: Any) -> bool:
        match reply:
            case MovedError():
                await self._topology.moved(reply)
                return True
            case AskError():
                return True
            case TryAgainError():
                await asyncio.sleep(TRY_AGAIN_SECONDS)
                return True
            case ClusterDownError():
                await self._topology.refresh()
                raise LinkError(f"the cluster is down: {reply}", sent=False)
            case _:
                return False

    async def one(self, *command: Argument) -> Any:
        return (await self.run((command,)))[0]

    async def everywhere(self) -> list[Link]:
        """A link to every primary, for what must be asked of all of them."""
        links = []
        for node in await self._topology.primaries():
            address = _address(node)
            links.append(self._links.setdefault(address, Link(connector_of(node), self._answer_seconds)))
        return links

    async def close(self) -> None:
        for link in self._links.values():
            await link.close()
        await self._topology.close()


def _address(node: ClusterNode) -> Address:
    return (str(node.host), int(node.port))
