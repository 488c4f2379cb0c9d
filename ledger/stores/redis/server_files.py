"""The files of a Redis or Valkey server, written anew so that they hold nothing that was taken out of its memory."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from ledger.core.late_patterns import late_pattern
from ledger.stores.redis.commands import RetriedCommands
from ledger.stores.redis.refusals import Refusal
from ledger.stores.redis.replies import refused_with
from ledger.stores.redis.servers import Commands
from ledger.stores.values import FilesRewritten

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
