"""Commands on a Redis or Valkey Cluster, each sent to the node that holds its partition.

redis-py's cluster client provides the topology; commands travel on our pipelining links, one for each
node. After MOVED, ASK or TRYAGAIN a command did not run, and is sent again to the node that serves it. The store
retries after CLUSTERDOWN and broken connections.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any

from redis.crc import key_slot

from ledger.stores.keys import Keys
from ledger.stores.redis.cluster_topology import Topology
from ledger.stores.redis.cluster_wake_ups import ClusterWakeUps
from ledger.stores.redis.confirmed_link import ConfirmedLink
from ledger.stores.redis.connection import Address, ServerConnection
from ledger.stores.redis.link import Argument, CommandLine, Link, LinkError
from ledger.stores.redis.refusals import Refusal
from ledger.stores.redis.servers import Commands, Revive, WakeUps

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
            addresses = await self._addresses_of(waiting)
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

    async def _addresses_of(self, chunks: Sequence[_Chunk]) -> list[Address]:
        return [chunk.ask or await self._topology.address_of(chunk.slot) for chunk in chunks]

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
        told_by = chunk.ask or await self._topology.address_of(chunk.slot)
        for place in chunk.places():
            match replies[place]:
                case Refusal(code="MOVED") as moved:
                    chunk.ask = None
                    await self._topology.moved(moved, told_by)
                    return True
                case Refusal(code="ASK") as ask if ("MULTI",) not in chunk.commands:
                    _, host, port = ask.redirection
                    chunk.ask = (host or told_by[0], port)
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

    async def one(self, *command: Argument) -> Any:
        reply = (await self.run((command,)))[0]
        if isinstance(reply, Refusal):
            raise reply
        return reply

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
    """An implementation of `ledger.stores.redis.servers.Servers` over the nodes of a cluster."""

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
