"""Connections of redis-py for plain servers: TLS by the options that it knows in a URL, and the primary that sentinels name.

Sentinels are asked for each new connection. After a failover the old connection breaks or refuses writes, and the next
one goes to the promoted server.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from ssl import SSLContext
from typing import Any

from redis.asyncio.connection import Connection, SSLConnection, parse_url
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from ledger.stores.redis.link import Address, CommandLine, Link, LinkError
from ledger.stores.redis.replies import refused_with


def options_of(url: str) -> dict[str, Any]:
    """Return what a URL says besides a server, a user and a database. Raises ValueError."""
    ours = ("db", "host", "password", "path", "port", "username")
    return {name: value for name, value in parse_url(url).items() if name not in ours}


def tls_of(options: Mapping[str, Any]) -> Callable[[], SSLContext] | None:
    """Return what makes the context; None without TLS. Raises ValueError, and TypeError for an unknown option."""
    others = dict(options)
    kind = others.pop("connection_class", Connection)
    try:
        connection = kind(**others)
    except RedisError as error:
        raise ValueError(str(error)) from None
    return connection.ssl_context.get if isinstance(connection, SSLConnection) else None


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
