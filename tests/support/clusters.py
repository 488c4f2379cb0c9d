"""A real cluster (three primaries, three replicas) and a real primary with a replica and three sentinels, for tests.

All processes listen on free ports of 127.0.0.1, keep their data in a temporary folder and are killed at the end.
"""

from __future__ import annotations

import math
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Final

import pytest
import redis
from redis.backoff import NoBackoff
from redis.crc import key_slot
from redis.exceptions import RedisError, ResponseError
from redis.retry import Retry

from tests.support.programs import EMBEDDED, binary_named
from tests.support.waiting import wait_until

HOST: Final = "127.0.0.1"
PRIMARY_COUNT: Final = 3
NODE_COUNT: Final = 6
SLOT_COUNT: Final = 16_384
SERVICE: Final = "ledger"

NODE_TIMEOUT_MS: Final = 1000
PATIENT_NODE_TIMEOUT_MS: Final = 15_000
FAILOVER_S: Final = 60.0
"""Time that a test waits for a failover at most: an election that fails is repeated 8 s later."""

GIVEN_UP_S: Final = 6.0
"""Time after which a node has given up a failover that an operator asked for: 5 s, and one to see that."""

_SETTINGS: Final = {
    "bind": HOST,
    "save": "",
    "appendonly": "no",
    "maxmemory-policy": "noeviction",
    # Five seconds otherwise, for every replica.
    "repl-diskless-sync-delay": "0",
}


class Node:
    """One server process on a port of this machine."""

    def __init__(self, folder: Path, port: int, options: Mapping[str, str]) -> None:
        self.folder = folder
        self.port = port
        self.options = {**_SETTINGS, **options, "port": str(port)}
        self._binary = binary_named(EMBEDDED).path
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    def start(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._process = _started(
            [str(self._binary), *(part for name, value in self.options.items() for part in (f"--{name}", value))],
            self.folder,
        )

    def run(self, *command: str | int | bytes) -> Any:
        """Return the answer of one command, as bytes."""
        with self.client() as client:
            return client.execute_command(*command)

    def client(self) -> redis.Redis:
        password = self.options.get("requirepass")
        return redis.Redis(
            host=HOST, port=self.port, password=password, protocol=2, socket_timeout=5, retry=Retry(NoBackoff(), 0)
        )

    def info(self) -> dict[str, str]:
        with self.client() as client:
            return {name: str(value) for name, value in client.info("replication").items()}

    def answers(self) -> bool:
        with suppress(RedisError, OSError):
            return bool(self.run("PING"))
        return False

    def signal(self, number: int) -> None:
        assert self._process
        self._process.send_signal(number)

    def pause(self) -> None:
        """Suspend the process: it accepts connections and answers nothing."""
        self.signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self.signal(signal.SIGCONT)

    def kill9(self) -> None:
        """Kill the process with SIGKILL; harmless when it is not running."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(timeout=60)
            self._process = None

    def restart(self) -> None:
        self.kill9()
        self.start()
        wait_until(self.answers, f"the server on port {self.port}")


class Cluster:
    """Three primaries that share the slots, and a replica of each."""

    def __init__(self, options: Mapping[str, str] | None = None) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="pl-cluster-"))
        ports = free_ports(2 * NODE_COUNT)
        self.nodes = [
            Node(
                self._folder / f"node-{port}",
                port,
                {
                    "cluster-enabled": "yes",
                    "cluster-port": str(bus),
                    "cluster-config-file": "nodes.conf",
                    "cluster-node-timeout": str(NODE_TIMEOUT_MS),
                    **(options or {}),
                },
            )
            for port, bus in zip(ports[:NODE_COUNT], ports[NODE_COUNT:], strict=True)
        ]

    @property
    def url(self) -> str:
        return "redis+cluster://" + ",".join(node.address for node in self.nodes)

    def start(self) -> None:
        """Returns when every slot is served and every replica is in step."""
        for node in self.nodes:
            node.start()
        for node in self.nodes:
            wait_until(node.answers, f"the server on port {node.port}")
        first, *others = self.nodes
        primaries, replicas = self.nodes[:PRIMARY_COUNT], self.nodes[PRIMARY_COUNT:]
        for index, node in enumerate(primaries):
            low, high = index * SLOT_COUNT // PRIMARY_COUNT, (index + 1) * SLOT_COUNT // PRIMARY_COUNT - 1
            node.run("CLUSTER", "SET-CONFIG-EPOCH", index + 1)
            node.run("CLUSTER", "ADDSLOTSRANGE", low, high)
        for node in others:
            first.run("CLUSTER", "MEET", HOST, node.port, node.options["cluster-port"])
        wait_until(lambda: all(len(self._nodes_by(node)) == NODE_COUNT for node in self.nodes), "all to know all")
        for primary, replica in zip(primaries, replicas, strict=True):
            wait_until(lambda: _accepted(replica, primary), "a node to become a replica")  # noqa: B023
        self.wait_until_well()

    def wait_until_well(self) -> None:
        """Wait until all six run, all slots are served, all replicas are in step, and all nodes agree on that."""
        wait_until(self._is_well, "the cluster to be well", FAILOVER_S)

    def _is_well(self) -> bool:
        with suppress(RedisError, OSError):
            roles = [node.info() for node in self.nodes]
            states = [node.run("CLUSTER", "INFO") for node in self.nodes]
            views = {_who_serves(node) for node in self.nodes}
            return (
                sum(info["role"] == "master" for info in roles) == PRIMARY_COUNT
                and all(info["role"] == "master" or info["master_link_status"] == "up" for info in roles)
                and all(info["role"] != "master" or info["connected_slaves"] == "1" for info in roles)
                and all(_said(state, "cluster_state:ok") for state in states)
                and len(views) == 1
            )
        return False

    def mend(self) -> None:
        """Restart or resume every server that a test has killed or paused."""
        for node in self.nodes:
            if node._process is None:
                node.restart()
            node.go_on()
        self.wait_until_well()

    def flush(self) -> None:
        """Empty the cluster; the primaries may change meanwhile."""

        def flushed() -> bool:
            with suppress(RedisError, OSError):
                primaries = self.primaries()
                return len(primaries) >= PRIMARY_COUNT and all(node.run("FLUSHALL") for node in primaries)
            return False

        wait_until(flushed, "the cluster to be empty")

    def primaries(self) -> list[Node]:
        return [node for node in self.nodes if node._process is not None and _role(node) == "master"]

    def primary_of(self, key: str) -> Node:
        """Return the node that serves a key now, by the majority of nodes."""
        slot = key_slot(key.encode())
        said: list[int] = []
        for node in self.nodes:
            with suppress(RedisError, OSError):
                said += [port for low, high, port in _who_serves(node) if low <= slot <= high]
        port = max(set(said), key=said.count)
        return self._at(port)

    def replica_of(self, primary: Node) -> Node:
        own = primary.run("CLUSTER", "MYID").decode()
        for node, facts in self._facts(primary):
            if own in facts[3]:
                return node
        raise AssertionError(f"no replica of {primary.address}")

    def hand_over_to(self, replica: Node) -> None:
        """Make a replica the primary as an operator does, without a loss; return when it is.

        A node that gets no answer of its primary for 5 s gives that up, and never repeats it by itself.
        """
        asked_s = -math.inf

        def is_primary() -> bool:
            nonlocal asked_s
            with suppress(RedisError, OSError):
                if replica.info()["role"] == "master":
                    return True
                if time.monotonic() - asked_s > GIVEN_UP_S:
                    asked_s = time.monotonic()
                    replica.run("CLUSTER", "FAILOVER")
            return False

        wait_until(is_primary, f"{replica.address} to be the primary", FAILOVER_S)

    def id_of(self, node: Node) -> str:
        found: bytes = node.run("CLUSTER", "MYID")
        return found.decode()

    def _at(self, port: int) -> Node:
        return next(node for node in self.nodes if node.port == port)

    def _facts(self, asked: Node) -> list[tuple[Node, list[str]]]:
        return [(self._at(_port(line)), line) for line in self._nodes_by(asked)]

    @staticmethod
    def _nodes_by(node: Node) -> list[list[str]]:
        return [line.split() for line in _text(node, "CLUSTER", "NODES").splitlines()]

    def remove(self) -> None:
        for node in self.nodes:
            node.kill9()
        shutil.rmtree(self._folder, ignore_errors=True)


class Sentinels:
    """A primary, a replica, and three sentinels that watch them; `password` is that of the sentinels."""

    def __init__(self, options: Mapping[str, str] | None = None, password: str | None = None) -> None:
        self._password = password
        self._folder = Path(tempfile.mkdtemp(prefix="pl-sentinels-"))
        ports = free_ports(5)
        # A killed server that began again without its data could be promoted before it is a replica in step.
        kept = {"appendonly": "yes", **(options or {})}
        self.servers = [Node(self._folder / f"node-{port}", port, dict(kept)) for port in ports[:2]]
        self.ports = ports[2:]
        self._sentinels: list[subprocess.Popen[bytes]] = []

    @property
    def url(self) -> str:
        return f"redis+sentinel://{','.join(f'{HOST}:{port}' for port in self.ports)}/{SERVICE}"

    def start(self) -> None:
        """Returns when the sentinels know the replica and one another."""
        first, second = self.servers
        second.options["replicaof"] = f"{HOST} {first.port}"
        for node in self.servers:
            node.start()
        for node in self.servers:
            wait_until(node.answers, f"the server on port {node.port}")
        for port in self.ports:
            self._sentinels.append(self._sentinel(port, first.port))
        wait_until(self._is_well, "the sentinels to know everybody", FAILOVER_S)

    def _sentinel(self, port: int, primary: int) -> subprocess.Popen[bytes]:
        folder = self._folder_of(port)
        folder.mkdir()
        configuration = folder / "sentinel.conf"
        configuration.write_text(
            f"port {port}\nbind {HOST}\ndir {folder}\n"
            f"sentinel monitor {SERVICE} {HOST} {primary} 2\n"
            f"sentinel down-after-milliseconds {SERVICE} 500\n"
            f"sentinel failover-timeout {SERVICE} 4000\n" + "".join(f"{line}\n" for line in self._passwords())
        )
        return _started([str(self.servers[0]._binary), str(configuration), "--sentinel"], folder)

    def _folder_of(self, port: int) -> Path:
        return self._folder / f"sentinel-{port}"

    def _passwords(self) -> list[str]:
        of_servers = self.servers[0].options.get("requirepass")
        to_servers = [f"sentinel auth-pass {SERVICE} {of_servers}"] if of_servers else []
        own = [f"requirepass {self._password}", f"sentinel sentinel-pass {self._password}"] if self._password else []
        return to_servers + own

    def _is_well(self) -> bool:
        with suppress(RedisError, OSError, StopIteration):
            return all(
                facts["num-slaves"] == "1" and facts["num-other-sentinels"] == "2"
                for facts in map(self._facts, self.ports)
            ) and any(node.info().get("connected_slaves") == "1" for node in self.servers)
        return False

    def wait_until_in_step(self) -> None:
        """Wait until the replica has replicated all data of the primary."""

        wait_until(lambda: in_step(*self.servers), "the replica to be in step")

    def mend(self) -> None:
        """Restart a server that a test has killed; it becomes a replica."""
        for node in self.servers:
            if node._process is None:
                # Otherwise it begins as a primary, until the sentinels have looked twice.
                node.options["replicaof"] = f"{HOST} {self.primary().port}"
                node.restart()
        wait_until(self._is_well, "the sentinels to know everybody", FAILOVER_S)

    def _client(self, port: int) -> redis.Redis:
        return redis.Redis(host=HOST, port=port, password=self._password, protocol=2, socket_timeout=5)

    def _facts(self, port: int) -> dict[str, str]:
        with self._client(port) as client:
            return _by_name(client.execute_command("SENTINEL", "MASTER", SERVICE))

    def primary(self) -> Node:
        """Return the primary that the first sentinel names."""
        port = int(self._facts(self.ports[0])["port"])
        return next(node for node in self.servers if node.port == port)

    def fail_over(self) -> None:
        """Fail over as an operator does; return when the other server is the primary."""
        before = self.primary()
        wait_until(lambda: self._has_failed_over(before), self._failover_and_log, FAILOVER_S)

    def _has_failed_over(self, before: Node) -> bool:
        """Return whether another server is the primary; otherwise ask for it, unless it is under way.

        A sentinel gives a failover up when the replica does not answer in time, and never repeats it by itself.
        """
        under_way = self.is_failing_over()
        if self.primary() is not before:
            return True
        if not under_way:
            with suppress(ResponseError), self._client(self.ports[0]) as client:  # NOGOODSLAVE: no replica answers now
                client.execute_command("SENTINEL", "FAILOVER", SERVICE)
        return False

    def is_failing_over(self) -> bool:
        """Return whether the first sentinel is at a failover."""
        return "failover_in_progress" in self._facts(self.ports[0])["flags"]

    def holds_for_down(self, replica: Node) -> bool:
        """Return whether the first sentinel has had no answer of the replica for too long."""
        with self._client(self.ports[0]) as client:
            (facts,) = map(_by_name, client.execute_command("SENTINEL", "REPLICAS", SERVICE))
        return facts["port"] == str(replica.port) and "s_down" in facts["flags"]

    def _failover_and_log(self) -> str:
        return f"the failover; the sentinel wrote:\n{self.log()}"

    def log(self) -> str:
        """Return all that the first sentinel has written."""
        return (self._folder_of(self.ports[0]) / "server.log").read_text()

    def remove(self) -> None:
        for process in self._sentinels:
            process.kill()
            process.wait(timeout=60)
        for node in self.servers:
            node.kill9()
        shutil.rmtree(self._folder, ignore_errors=True)


def in_step(*servers: Node) -> bool:
    """Return whether all nodes are connected and have replicated the same data."""
    with suppress(RedisError, OSError):
        infos = [node.info() for node in servers]
        replicas = [info for info in infos if info["role"] == "slave"]
        links = {info["master_link_status"] for info in replicas}
        return links <= {"up"} and len({info["master_repl_offset"] for info in infos}) == 1
    return False


def free_ports(count: int) -> list[int]:
    """Return different ports, all free at this moment."""
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind((HOST, 0))
        return [int(one.getsockname()[1]) for one in sockets]


def _started(command: Sequence[str], folder: Path) -> subprocess.Popen[bytes]:
    with (folder / "server.log").open("ab") as log:
        return subprocess.Popen(
            command, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )


def _accepted(replica: Node, primary: Node) -> bool:
    try:
        return bool(replica.run("CLUSTER", "REPLICATE", primary.run("CLUSTER", "MYID")))
    except ResponseError:
        return False


def _text(node: Node, *command: str) -> str:
    with node.client() as client:
        client.response_callbacks.clear()
        answer: bytes = client.execute_command(*command)
    return answer.decode()


def _by_name(facts: Any) -> dict[str, str]:
    """Return facts of a sentinel by their names; the client returns some of them as a list of names and values."""
    if isinstance(facts, dict):
        return {str(name): str(value) for name, value in facts.items()}
    return {facts[i].decode(): facts[i + 1].decode() for i in range(0, len(facts), 2)}


def _said(answer: Any, words: str) -> bool:
    return words in (answer.decode() if isinstance(answer, bytes) else str(answer))


def _port(line: Sequence[str]) -> int:
    return int(line[1].partition("@")[0].partition(",")[0].rpartition(":")[2])


def _role(node: Node) -> str:
    with suppress(RedisError, OSError):
        return node.info()["role"]
    return "gone"


def _who_serves(node: Node) -> tuple[tuple[int, int, int], ...]:
    """Return the first slot, last slot and port of each range, as this node reports them."""
    with node.client() as client:
        client.response_callbacks.clear()
        ranges = client.execute_command("CLUSTER", "SLOTS")
    return tuple(sorted((int(one[0]), int(one[1]), int(one[2][1])) for one in ranges))


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[Node, Node]]:
    """A primary and its replica, without sentinels."""
    first, second = (Node(tmp_path / f"node-{port}", port, {}) for port in free_ports(2))
    second.options["replicaof"] = f"{HOST} {first.port}"
    try:
        for node in (first, second):
            node.start()
        wait_until(lambda: in_step(first, second), "the replica to be in step")
        yield first, second
    finally:
        for node in (first, second):
            node.kill9()


@pytest.fixture(scope="session")
def shared_cluster() -> Iterator[Cluster]:
    """One cluster for all tests of an xdist worker that leave it unchanged."""
    # No server of a machine that is busy with other tests may be declared dead.
    cluster = Cluster({"cluster-node-timeout": str(PATIENT_NODE_TIMEOUT_MS)})
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.remove()
