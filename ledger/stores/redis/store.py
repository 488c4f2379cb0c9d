"""A store on Redis or Valkey: one server, the primary that sentinels name, or a cluster.

With the settings fixed when a deployment is created, the requirements on its server, and the server's files written anew
so that they hold nothing that was taken out of its memory.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, Protocol, TypeVar

from ledger.core.errors import SetupError, StoreError
from ledger.core.late_patterns import late_pattern
from ledger.core.limits import GIVE_UP_SECONDS, PARTITION_COUNT_DEFAULT, PARTITION_COUNT_MAX
from ledger.stores.durability import Durability, shortcomings, version_of
from ledger.stores.keys import Keys
from ledger.stores.port import FilesRewritten, Position
from ledger.stores.redis.appends import AppendCalls, Hints
from ledger.stores.redis.commands import RetriedCommands
from ledger.stores.redis.feeds import Feeds
from ledger.stores.redis.link import Argument, CommandLine, Commands, Revive, Servers, WakeUps
from ledger.stores.redis.replies import Refusal, pairs_of, refusal_of, refused_with
from ledger.stores.redis.sealing import Rewriting, Stubs
from ledger.stores.redis.views import Views
from ledger.stores.store import Clock, Listener

DONE: Final = "done"
OFF: Final = "off"

WAIT_SECONDS: Final = 600.0
"""The time for which one file of a server is waited for."""

LOOK_SECONDS: Final = 0.05
SAVED_AT_START_SECONDS: Final = 2

_BUSY: Final = ("already in progress", "child process is active")
"""The server's words where it writes another file at this moment."""

_REPLICA: Final = late_pattern(r"ip=([^,]+),port=(\d+)")


async def rewrite_all_files(store: RetriedCommands) -> list[FilesRewritten]:
    """Make every server write its files anew, and wait for it. Raises StoreError."""
    told = []
    for server in await store.everywhere():
        primary = _Files(store, server)
        facts = await primary.facts()
        addresses = _replicas(facts)
        reached = {one: _Files(store, link) for one in addresses if (link := store.replica(one)) is not None}
        left = tuple(f"{host}:{port}" for host, port in addresses if (host, port) not in reached)
        told.append(await primary.rewritten(left))
        for replica in reached.values():
            await replica.catch_up(int(facts["master_repl_offset"]))
            told.append(await replica.rewritten())
    return told


class _Files:
    """The files of one server."""

    def __init__(self, store: RetriedCommands, server: Commands) -> None:
        self._store = store
        self._server = server

    async def rewritten(self, replicas: tuple[str, ...] = ()) -> FilesRewritten:
        """Write the files anew; `replicas` are those that nobody reaches."""
        facts = await self.facts()
        return FilesRewritten(
            server=f"{facts.get('executable', 'server').rsplit('/', 1)[-1]} on port {facts.get('tcp_port', '?')}",
            append_only_file=await self.rewrite_append_only_file(facts),
            snapshot_file=await self.rewrite_snapshot_file(facts),
            slow_log=await self.empty_slow_log(),
            replicas=replicas,
        )

    async def catch_up(self, offset: int) -> None:
        """Wait until a replica has what its primary had at an offset of its stream of changes."""
        with suppress(TimeoutError):
            async with asyncio.timeout(WAIT_SECONDS):
                while True:
                    if int((await self.facts()).get("slave_repl_offset", offset)) >= offset:
                        return
                    await asyncio.sleep(LOOK_SECONDS)

    async def facts(self) -> dict[str, str]:
        """Return the fields of INFO."""
        text = (await self._store.command_at(self._server, "INFO")).decode()
        lines = (line.partition(":") for line in text.splitlines() if ":" in line and not line.startswith("#"))
        return {name: value for name, _, value in lines}

    async def rewrite_append_only_file(self, facts: dict[str, str]) -> str:
        if facts.get("aof_enabled") != "1":
            return OFF
        return await self._written_anew(
            ("BGREWRITEAOF",), ("aof_rewrite_in_progress", "aof_rewrite_scheduled"), "aof_last_bgrewrite_status"
        )

    async def rewrite_snapshot_file(self, facts: dict[str, str]) -> str:
        """Write the snapshot (RDB) anew where the server writes one: by its settings, or since its start."""
        (settings,) = await self._run("CONFIG", "GET", "save")
        began_s = int(facts["server_time_usec"]) // 1_000_000 - int(facts["uptime_in_seconds"])
        has_saved = int(facts["rdb_last_save_time"]) > began_s + SAVED_AT_START_SECONDS
        if not isinstance(settings, Refusal) and not settings[1] and not has_saved:
            return OFF
        return await self._written_anew(("BGSAVE",), ("rdb_bgsave_in_progress",), "rdb_last_bgsave_status")

    async def empty_slow_log(self) -> str:
        """Empty the log of slow commands, which keeps the beginnings of their arguments."""
        (reply,) = await self._run("SLOWLOG", "RESET")
        return _why_not(reply) if isinstance(reply, Refusal) else DONE

    async def _written_anew(self, command: Sequence[str], running: Sequence[str], status: str) -> str:
        """Run a command that begins to write a file; one that began before has the old content, and is waited for."""
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                while True:
                    await self._until_none(running)
                    (reply,) = await self._run(*command)
                    if not isinstance(reply, Refusal):
                        break
                    if not any(text in str(reply) for text in _BUSY):
                        return _why_not(reply)
                    await asyncio.sleep(LOOK_SECONDS)
                facts = await self._until_none(running)
        except TimeoutError:
            return f"not finished after {WAIT_SECONDS:g} seconds"
        return DONE if facts.get(status) == "ok" else f"failed: {status} is {facts.get(status)}"

    async def _until_none(self, running: Sequence[str]) -> dict[str, str]:
        while True:
            facts = await self.facts()
            if all(facts.get(name, "0") == "0" for name in running):
                return facts
            await asyncio.sleep(LOOK_SECONDS)

    async def _run(self, *command: str) -> list[Any]:
        return await self._store.patiently(lambda: self._server.run((command,)))


def _why_not(reply: Refusal) -> str:
    return "not permitted" if refused_with(reply, "NOPERM") else f"refused: {reply}"


def _replicas(facts: dict[str, str]) -> list[tuple[str, int]]:
    found = (_REPLICA.search(value) for name, value in facts.items() if re.fullmatch(r"slave\d+", name))
    return [(one[1], int(one[2])) for one in found if one]


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
    if version_of(version) < least:
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


T = TypeVar("T")

log = logging.getLogger(__name__)

PAUSE_SECONDS: Final = 0.25
"""The pause before a server is asked again that is not ready yet."""


class RedisStore(Hints, Feeds, Views, Stubs, Rewriting, Deployment):
    """A store over Redis servers, which several stores and processes may share."""

    def __init__(
        self,
        servers: Servers,
        *,
        partition_count: int | None = None,
        clock: Clock | None = None,
        revive: Revive | None = None,
        durability: Durability | None = None,
    ) -> None:
        super().__init__(servers, clock=clock, revive=revive, durability=durability)
        self._wanted_partitions = partition_count
        self._wake_ups: WakeUps | None = None

    async def start(self) -> None:
        self._keys = Keys(await when_ready(self._meet, others_take_over=self._servers.others_take_over))
        self.append_calls = AppendCalls(self._keys, self.clock, moved_by_a_test=self._test_clock is not None)
        self._wake_ups = self._servers.wake_ups(self._keys, self._revive)
        await self.now_ms()

    async def _meet(self) -> int:
        """Check the servers, and return the deployment's partition count; recorded where it is a new one."""
        for server in await self.everywhere():
            await check_server(partial(self.command_at, server), self.durability)
        found = await read_partitions(self.command, self._wanted_partitions)
        if found is None:
            # Safe to repeat, and to run concurrently.
            config = Keys(1).config()
            await self.command("HSETNX", config, PARTITIONS, self._wanted_partitions or PARTITION_COUNT_DEFAULT)
            await self.command("HSETNX", config, SCHEMA, DEPLOYMENT_SCHEMA)
            found = await read_partitions(self.command, self._wanted_partitions)
            assert found is not None, "it was just recorded"
        return found

    async def close(self) -> None:
        self._is_closed = True
        self._revive = None
        if self._wake_ups is not None:
            await self._wake_ups.close()
        await self._link.close()
        await self._sure_link.close()
        await self._servers.close()

    async def subscribe(self, partition: int, listener: Listener) -> None:
        assert self._wake_ups is not None, "start() comes first"
        self._wake_ups.listen(listener)
        try:
            async with asyncio.timeout(GIVE_UP_SECONDS):
                await self._wake_ups.subscribe(partition)
        except TimeoutError:
            # A wake-up is a hint: without it the sweep finds the new entries, later.
            log.warning("cannot subscribe to the wake-ups of partition %s (is SSUBSCRIBE allowed?)", partition)


async def when_ready(meet: Callable[[], Awaitable[T]], *, others_take_over: bool) -> T:
    """Return the result of `meet`, retried for GIVE_UP_SECONDS where waiting may help. Raises StoreError, SetupError.

    A SetupError is raised at once, and so is an unreachable server that no other replaces: the URL is probably wrong.
    """
    loop = asyncio.get_running_loop()
    give_up = loop.time() + GIVE_UP_SECONDS
    told = False
    while True:
        try:
            return await meet()
        except SetupError:
            raise
        except StoreError as error:
            if not (others_take_over or _only_not_ready(error)) or loop.time() + PAUSE_SECONDS > give_up:
                raise
            if not told:
                log.warning("%s; waiting up to %g s for it", error.text, GIVE_UP_SECONDS)
                told = True
        await asyncio.sleep(PAUSE_SECONDS)


def _only_not_ready(error: BaseException | None) -> bool:
    """Return whether an error was caused by a server that is up but not ready yet."""
    while error is not None:
        if isinstance(error, Refusal) and error.will_pass:
            return True
        error = error.__cause__
    return False
