"""TLS as redis-py sets it up, with the options that it knows in a URL."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from ssl import SSLContext
from typing import Any

from redis.asyncio.connection import Connection, SSLConnection, parse_url
from redis.exceptions import RedisError


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
