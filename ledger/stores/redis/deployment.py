"""The settings fixed when a deployment is created, and the requirements on its server."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Awaitable
from typing import Any, Final, Protocol

from ledger.core.errors import SetupError
from ledger.core.limits import PARTITION_COUNT_DEFAULT, PARTITION_COUNT_MAX
from ledger.stores.durability import Durability, shortcomings
from ledger.stores.keys import Keys
from ledger.stores.redis.refusals import Refusal, refusal_of

log = logging.getLogger(__name__)

REDIS_VERSION_MIN = (7, 0)
VALKEY_VERSION_MIN = (7, 2)


DEPLOYMENT_SCHEMA: Final = 1
"""The least schema that all processes of a deployment write."""

PARTITIONS: Final = "partitions"
SCHEMA: Final = "schema"

SECRET_BYTES = 32
LINK_KEY = "link_key"
"""The field of the deployment's settings with the key of answer links."""


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


async def deployment_secret(run: RunCommand) -> bytes:
    """Return the signing key of this deployment, 32 random bytes; the first process that needs it creates it."""
    config = Keys(1).config()
    found = await run("HGET", config, "secret")
    if found is None:
        await run("HSETNX", config, "secret", secrets.token_hex(SECRET_BYTES))
        found = await run("HGET", config, "secret")
    return bytes.fromhex(found.decode())


async def link_key(run: RunCommand) -> bytes:
    """Return the key that signs answer links: the deployment's secret until it is replaced."""
    found = await run("HGET", Keys(1).config(), LINK_KEY)
    return await deployment_secret(run) if found is None else bytes.fromhex(found.decode())


async def replace_link_key(run: RunCommand) -> None:
    """Replace the key of answer links, for every process, with a new random one."""
    await run("HSET", Keys(1).config(), LINK_KEY, secrets.token_hex(SECRET_BYTES))


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
