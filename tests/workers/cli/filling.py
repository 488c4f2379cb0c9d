"""A small ledger, and what to compare two ledgers by."""

from __future__ import annotations

import asyncio
from typing import Any

import redis

from ledger import Ledger
from tests.support.command_line import CommandLine


def fill(ledger: CommandLine) -> None:
    """Session ses_1 (3 events, its grant in project shop) and ses_2, in which p1 waits."""
    asyncio.run(_fill(ledger.url))


async def _fill(url: str) -> None:
    async with Ledger.connect(url, entry_points=False) as ledger:
        await session_with_a_grant(ledger)
        other = await ledger.session("ses_2")
        await other.submit("edit", ["a.py"], request_id="p1")


async def session_with_a_grant(ledger: Ledger) -> None:
    session = await ledger.session("ses_1", project="shop")
    await session.submit("bash", ["git push"], always=["git *"], request_id="r1")
    await session.reply("r1", "always", actor="ann")


def names(client: redis.Redis, pattern: str) -> list[str]:
    """The keys on the server that match."""
    keys: Any = client.keys(pattern)
    return sorted(key.decode() for key in keys)


def entries(client: redis.Redis, key: str) -> list[tuple[bytes, dict[Any, Any]]]:
    found: Any = client.xrange(key)
    return list(found)


def heads(ledger: CommandLine) -> list[tuple[Any, Any]]:
    return [(row["session"] or row["project"], row["head"]) for row in ledger("verify", "--all", "--json").rows]


def views(client: redis.Redis) -> dict[str, Any]:
    """Every view, as any client of the server sees it."""
    found: dict[str, Any] = {}
    for key in names(client, "*:view:*"):
        of_hash = client.type(key) == b"hash"
        found[key] = client.hgetall(key) if of_hash else client.zrange(key, 0, -1, withscores=True)
    return found
