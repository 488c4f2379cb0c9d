"""Connections to the primary that sentinels name; redis-py asks the sentinels for each new connection.

After a failover the old connection breaks or refuses writes, and the next one goes to the promoted server.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from redis.asyncio.connection import AbstractConnection, SSLConnection
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel, SentinelConnectionPool, SentinelManagedConnection
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import ReadOnlyError

from ledger.stores.redis.link import CommandLine, Link, LinkError

SENTINEL_ANSWER_SECONDS = 1.0
"""The timeout of a sentinel, after which the next one is asked."""

SentinelAddress = tuple[str, int]


class PrimaryConnection(SentinelManagedConnection):
    """A connection to the server that sentinels name, if its own ROLE is primary."""

    async def connect(self) -> None:
        await super().connect()  # type: ignore[no-untyped-call]
        await self.send_command("ROLE", check_health=False)
        role = await self.read_response(disable_decoding=True)
        if role[0] != b"master":
            # A sentinel that has not learned of the failover yet names the old primary.
            await self.disconnect(nowait=True)
            raise RedisConnectionError(f"sentinels name a {role[0].decode()} as the primary; failover in progress?")


class PrimarySSLConnection(PrimaryConnection, SSLConnection):
    """As `PrimaryConnection`, over TLS."""


class PrimaryLink(Link):
    """A link that disconnects from a server that became a replica, and connects to the new primary."""

    async def run(self, commands: Sequence[CommandLine], *, in_order: bool = False) -> list[Any]:
        replies = await super().run(commands, in_order=in_order)
        if not any(isinstance(reply, ReadOnlyError) for reply in replies):
            return replies
        await self.close()
        written = any(
            command[0] == "EVALSHA" and not isinstance(reply, ReadOnlyError)
            for command, reply in zip(commands, replies, strict=True)
        )
        raise LinkError("the server has become a replica", sent=written)


def primary_of(
    sentinels: Sequence[SentinelAddress],
    service: str,
    options: Mapping[str, Any],
    sentinel_options: Mapping[str, Any],
) -> tuple[Callable[[], AbstractConnection], Callable[[], Awaitable[None]]]:
    """Return a factory of connections to the primary of `service`, and a function that closes those to sentinels."""
    manager = Sentinel(  # type: ignore[no-untyped-call]
        list(sentinels),
        sentinel_kwargs={
            "socket_timeout": SENTINEL_ANSWER_SECONDS,
            "socket_connect_timeout": SENTINEL_ANSWER_SECONDS,
            "retry": Retry(NoBackoff(), 0),
            "protocol": 2,
            **sentinel_options,
        },
    )
    kind = PrimarySSLConnection if issubclass(options["connection_class"], SSLConnection) else PrimaryConnection
    pool = SentinelConnectionPool(  # type: ignore[no-untyped-call]
        service, manager, **{**options, "connection_class": kind}
    )

    def connect() -> AbstractConnection:
        connection: AbstractConnection = pool.make_connection()  # type: ignore[no-untyped-call]
        return connection

    async def close() -> None:
        await manager.aclose()

    return connect, close
