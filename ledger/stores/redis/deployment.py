"""The settings fixed when a deployment is created, and the requirements on its server."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, Final, Protocol

from ledger.core.errors import SetupError
from ledger.core.limits import PARTITION_COUNT_DEFAULT, PARTITION_COUNT_MAX
from ledger.stores.durability import Durability, shortcomings
from ledger.stores.keys import Keys
from ledger.stores.port import Position
from ledger.stores.redis.commands import RetriedCommands
from ledger.stores.redis.link import Argument, CommandLine
from ledger.stores.redis.refusals import Refusal, refusal_of
from ledger.stores.redis.replies import pairs_of
from ledger.stores.redis.server_files import rewrite_all_files
from ledger.stores.redis.servers import Commands
from ledger.stores.values import FilesRewritten

log = logging.getLogger(__name__)

_SETTINGS: Final = ("appendonly", "appendfsync", "maxmemory-policy", "min-replicas-to-write", "save", "dir")

REDIS_VERSION_MIN = (7, 0)
VALKEY_VERSION_MIN = (7, 2)


DEPLOYMENT_SCHEMA: Final = 1
"""The least schema that all processes of a deployment write."""

PARTITIONS: Final = "partitions"
SCHEMA: Final = "schema"


class RunCommand(Protocol):
    def __call__(self, *command: bytes | str | float) -> Awaitable[Any]: ...


async def read_partitions(run: RunCommand, wanted: int | None) -> int | None:
    """Return the deployment's partition count, None where there is no deployment yet.

    Raises SetupError for another partition count than `wanted`, and for a deployment of a newer version.
    """
    if wanted is not None and not 0 < wanted <= PARTITION_COUNT_MAX:
        raise SetupError(f"{wanted} partitions are not possible; choose 1 to {PARTITION_COUNT_MAX}")
    config = Keys(1).config()
    partitions, schema = await run("HMGET", config, PARTITIONS, SCHEMA)
    if partitions is None or schema is None:
        return None
    if int(schema) > DEPLOYMENT_SCHEMA:
        raise SetupError(f"this ledger was upgraded to schema {int(schema)}; upgrade this permission-ledger to use it")
    if not partitions.isdigit():
        raise SetupError(f"the field `{PARTITIONS}` of the key `{config}` is no number: `{partitions.decode()[:80]}`")
    fixed = int(partitions)
    if wanted not in (None, fixed):
        raise SetupError(
            f"this ledger was created with {fixed} partitions, not {wanted}; the number is fixed for good "
            f"(export, create a new one, import)"
        )
    return fixed


async def record_deployment(run: RunCommand, partition_count: int | None) -> None:
    """Record a new deployment. Safe to repeat, and to run concurrently."""
    config = Keys(1).config()
    await run("HSETNX", config, PARTITIONS, partition_count or PARTITION_COUNT_DEFAULT)
    await run("HSETNX", config, SCHEMA, DEPLOYMENT_SCHEMA)


async def check_server(run: RunCommand, durability: Durability) -> None:
    """Raise SetupError for a server that is unfit to hold a ledger; log a warning for each risky setting."""
    facts = await server_facts(run)
    if facts.get("loading") == "1":
        # Its INFO does not show the final settings yet: the append-only file is not open.
        loading = Refusal("LOADING by its own INFO")
        raise refusal_of(loading) from loading
    problems = refusals(facts) + shortcomings(facts, durability)
    if problems:
        raise SetupError("; ".join(problems))
    for warning in warnings(facts):
        log.warning("%s", warning)


async def server_facts(run: RunCommand) -> dict[str, str]:
    """Return INFO's server, memory, persistence and replication sections as one dictionary."""
    facts: dict[str, str] = {}
    for section in ("server", "memory", "persistence", "replication"):
        text: bytes = await run("INFO", section)
        for line in text.decode().splitlines():
            name, colon, value = line.partition(":")
            if colon:
                facts[name] = value
    return facts


def engine(facts: dict[str, str]) -> tuple[str, str]:
    """Return name and version of the server. Valkey also reports the Redis version that it is compatible with."""
    if "valkey_version" in facts:
        return "valkey", facts["valkey_version"]
    return "redis", facts.get("redis_version", "0")


def refusals(facts: dict[str, str]) -> list[str]:
    """Return the reasons for which this server cannot hold a ledger."""
    found = []
    name, version = engine(facts)
    least = VALKEY_VERSION_MIN if name == "valkey" else REDIS_VERSION_MIN
    if _numbers(version) < least:
        found.append(f"{name} {version} is too old; {name} {least[0]}.{least[1]} or newer is needed")
    policy = facts.get("maxmemory_policy", "noeviction")
    if policy.startswith("allkeys"):
        found.append(
            f"the server evicts any key when memory is short (maxmemory-policy {policy}): history would be lost; "
            "set maxmemory-policy noeviction"
        )
    return found


def warnings(facts: dict[str, str]) -> list[str]:
    """Return the settings that would lose data in a crash or failover."""
    found = []
    if facts.get("aof_enabled") == "0":
        found.append(
            "the server keeps no append-only file: a crash loses what came after the last snapshot; "
            "set appendonly yes and appendfsync always"
        )
    if facts.get("aof_last_write_status", "ok") != "ok":
        found.append("the server's last write to its append-only file failed; look at its disk")
    policy = facts.get("maxmemory_policy", "noeviction")
    if policy.startswith("volatile"):
        found.append(f"maxmemory-policy is {policy}; noeviction is what a ledger wants")
    return found


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2] if part.isdigit())


class Deployment(RetriedCommands):
    """The content of a deployment besides streams, hints and views, and the facts of its servers."""

    async def note_reads(self, kind: str, lines: Sequence[bytes], count_max: int, oldest_ms: int) -> None:
        key = self.keys.reads(kind)
        (oldest,) = await self.ask([("XRANGE", key, "-", "+", "COUNT", 1)])
        is_old = bool(oldest) and Position.parse(oldest[0][0].decode()).ms < oldest_ms
        # One XADD trims by one criterion only, and the ledger's user has no right to XTRIM.
        by_count: CommandLine = ("MAXLEN", "~", count_max)
        first: CommandLine = ("MINID", "=", oldest_ms) if is_old else by_count
        bounds = [first, *[by_count] * (len(lines) - 1)]
        await self.ask([("XADD", key, *bound, "*", "r", line) for bound, line in zip(bounds, lines, strict=True)])

    async def reads(self, kind: str, since_ms: int, count: int) -> list[tuple[int, bytes]]:
        (found,) = await self.ask([("XREVRANGE", self.keys.reads(kind), "+", since_ms, "COUNT", count)])
        return [(Position.parse(entry.decode()).ms, fields[1]) for entry, fields in reversed(found)]

    async def notes(self, name: str) -> Mapping[str, bytes]:
        return pairs_of(await self.command("HGETALL", self.keys.notes(name)))

    async def note(self, name: str, field: str, value: bytes, *, once: bool = False) -> None:
        await self.command("HSETNX" if once else "HSET", self.keys.notes(name), field, value)

    async def rewrite_files(self) -> list[FilesRewritten]:
        return await rewrite_all_files(self)

    async def check_writable(self) -> None:
        servers = await self.everywhere()
        partitions = range(1 if len(servers) == 1 else self.partition_count)
        # Refused as any write is, and without a key of that name nothing changes or goes to the file.
        await self.ask([("SET", self.keys.sure(one), "", "XX", "KEEPTTL") for one in partitions])

    async def server_facts(self) -> list[dict[str, str]]:
        return [await self._facts_of(server) for server in await self.everywhere()]

    async def _facts_of(self, server: Commands) -> dict[str, str]:
        async def run(*command: Argument) -> Any:
            return (await self.ask_at(server, (command,)))[0]

        facts = await server_facts(run)
        (reply,) = await server.run([("CONFIG", "GET", *_SETTINGS)])
        # Many hosted servers do not allow CONFIG GET; then INFO has to do.
        if not isinstance(reply, Refusal):
            facts.update({f"config_{name}": value.decode() for name, value in pairs_of(reply).items()})
        return facts
