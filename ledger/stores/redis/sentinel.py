"""Links to the primary that sentinels name; redis-py asks them for each new connection.

After a failover the old connection breaks or refuses writes, and the next one goes to the promoted server.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from ledger.stores.redis.connection import Address
from ledger.stores.redis.link import CommandLine, Link, LinkError
from ledger.stores.redis.replies import refused_with

SENTINEL_ANSWER_SECONDS = 1.0
"""The timeout of a sentinel, after which the next one is asked."""


class PrimaryLink(Link):
    """A link that disconnects from a server that became a replica, and connects to the new primary."""

    async def run(self, commands: Sequence[CommandLine], *, in_order: bool = False) -> list[Any]:
        replies = await super().run(commands, in_order=in_order)
        if not any(refused_with(reply, "READONLY") for reply in replies):
            return replies
        await self.close()
        written = any(
            command[0] == "EVALSHA" and not refused_with(reply, "READONLY")
            for command, reply in zip(commands, replies, strict=True)
        )
        raise LinkError("the server has become a replica", sent=written)


def primary_of(
    sentinels: Sequence[Address], service: str, options: Mapping[str, Any]
) -> tuple[Callable[[], Awaitable[Address]], Callable[[], Awaitable[None]]]:
    """Return a function that asks for the address of the primary of `service`, and one that closes the connections."""
    manager = Sentinel(  # type: ignore[no-untyped-call]
        list(sentinels),
        sentinel_kwargs={
            "socket_timeout": SENTINEL_ANSWER_SECONDS,
            "socket_connect_timeout": SENTINEL_ANSWER_SECONDS,
            "retry": Retry(NoBackoff(), 0),
            "protocol": 2,
            **options,
        },
    )

    async def find() -> Address:
        try:
            host, port = await manager.discover_master(service)
        except RedisError as error:
            raise OSError(str(error)) from error
        return host, int(port)

    return find, manager.aclose
