"""A real cluster of primaries without replicas on free ports of this machine, and its counters."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

import redis
from redis.exceptions import RedisError

from ledger.stores.embedded.launch import MEMORY_SETTINGS, find_binary

HOST: Final = "127.0.0.1"
SLOTS_COUNT: Final = 16_384
START_SECONDS: Final = 60.0
LOOK_SECONDS: Final = 0.05
IDLE_SECONDS: Final = 3.0
"""The time for which a node is watched without work."""

SETTINGS: Final = {
    "bind": HOST,
    "save": "",
    "appendonly": "yes",
    "appendfsync": "everysec",
    "maxmemory-policy": "noeviction",
    **MEMORY_SETTINGS,
    "cluster-enabled": "yes",
    "cluster-config-file": "nodes.conf",
}


class Load(NamedTuple):
    """Counters of one node. `command_seconds` is the calls of each command times its median time.

    Medians, because a command that was interrupted by other programs on the machine counts the time of those, too.
    """

    processor_seconds: float
    command_seconds: float
    commands: int
    keys: int
    memory_bytes: int

    def since(self, before: Load) -> Load:
        """Return the difference of all counters, keys and memory included."""
        return Load._make(now - then for now, then in zip(self, before, strict=True))

    def without_idling(self, idle: float, seconds: float) -> Load:
        """Return the load without the processor time that a node takes for itself, `idle` seconds in a second."""
        return self._replace(processor_seconds=self.processor_seconds - idle * seconds)


class Node:
    """One server process."""

    def __init__(self, folder: Path, port: int, bus: int) -> None:
        self.port = port
        self.bus = bus
        options = {**SETTINGS, "port": str(port), "cluster-port": str(bus)}
        folder.mkdir(parents=True)
        with (folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [find_binary().path, *(part for name, value in options.items() for part in (f"--{name}", value))],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self._client = redis.Redis(host=HOST, port=port, protocol=2)

    def run(self, *command: str | int) -> Any:
        return self._client.execute_command(*command)  # type: ignore[no-untyped-call]

    def until(self, is_so: Any) -> None:
        """Wait for a condition of this node. Raises RuntimeError when it does not come."""
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end:
            with suppress(RedisError, OSError):
                if is_so(self):
                    return
            time.sleep(LOOK_SECONDS)
        raise RuntimeError(f"the server on port {self.port} is not ready after {START_SECONDS:.0f} s")

    def load(self) -> Load:
        processor, stats = self._client.info("cpu"), self._client.info("commandstats")
        medians = self._medians()
        return Load(
            processor_seconds=processor["used_cpu_user"] + processor["used_cpu_sys"],
            command_seconds=sum(
                one["calls"] * medians.get(name.removeprefix("cmdstat_"), 0.0) / 1e6 for name, one in stats.items()
            ),
            commands=self._client.info("stats")["total_commands_processed"],
            keys=self._client.dbsize(),
            memory_bytes=self._client.info("memory")["used_memory"],
        )

    def script_microseconds(self) -> float:
        """Return the median time of a script, nearly all of which are appends."""
        return self._medians()["evalsha"]

    def _medians(self) -> dict[str, float]:
        """Return the median time of each command (microseconds) since the counters were set to zero."""
        told = self._client.info("latencystats")
        return {name.removeprefix("latency_percentiles_usec_"): one["p50"] for name, one in told.items()}

    def end(self) -> None:
        self._client.close()
        self._process.kill()
        self._process.wait()


@contextmanager
def cluster(folder: Path, count: int) -> Iterator[list[Node]]:
    """Run a cluster whose primaries share the slots equally; they are killed after the block."""
    ports = _free_ports(2 * count)
    nodes: list[Node] = []
    try:
        for index in range(count):
            # One by one: those that have started are ended when a later one fails.
            nodes.append(Node(folder / f"node-{count}-{index}", ports[index], ports[count + index]))  # noqa: PERF401
        for index, node in enumerate(nodes):
            node.until(lambda one: one.run("PING"))
            node.run("CLUSTER", "SET-CONFIG-EPOCH", index + 1)
            node.run(
                "CLUSTER",
                "ADDSLOTSRANGE",
                index * SLOTS_COUNT // count,
                (index + 1) * SLOTS_COUNT // count - 1,
            )
            nodes[0].run("CLUSTER", "MEET", HOST, node.port, node.bus)
        for node in nodes:
            node.until(lambda one: _is_well(one, count))
        yield nodes
    finally:
        for node in nodes:
            node.end()


def url_of(nodes: list[Node]) -> str:
    return "redis+cluster://" + ",".join(f"{HOST}:{node.port}" for node in nodes)


async def idling(nodes: list[Node]) -> list[float]:
    """Return the share of a processor that each node takes without work: timers, and the cluster's own messages."""
    before, began = await loads(nodes), time.monotonic()
    await asyncio.sleep(IDLE_SECONDS)
    passed = time.monotonic() - began
    after = await loads(nodes)
    return [now.since(then).processor_seconds / passed for now, then in zip(after, before, strict=True)]


async def loads(nodes: list[Node]) -> list[Load]:
    return [await asyncio.to_thread(node.load) for node in nodes]


def _is_well(node: Node, count: int) -> bool:
    facts = _facts(node.run("CLUSTER", "INFO"))
    wanted = ("ok", str(count), str(SLOTS_COUNT))
    return tuple(facts[name] for name in ("cluster_state", "cluster_known_nodes", "cluster_slots_ok")) == wanted


def _facts(said: Any) -> dict[str, str]:
    """Return the facts of `CLUSTER INFO`, which redis-py has parsed or not, by its version."""
    if isinstance(said, dict):
        return said
    text = said.decode() if isinstance(said, bytes) else str(said)
    return dict(line.split(":", 1) for line in text.splitlines() if line)


def _free_ports(count: int) -> list[int]:
    listeners = [socket.create_server((HOST, 0)) for _ in range(count)]
    try:
        return [listener.getsockname()[1] for listener in listeners]
    finally:
        for listener in listeners:
            listener.close()
