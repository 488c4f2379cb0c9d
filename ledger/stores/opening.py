"""From a URL to a store."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from redis.asyncio.connection import AbstractConnection, Connection, parse_url
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from ledger.errors import InputError
from ledger.stores.clock import Clock
from ledger.stores.memory import MemoryServer, MemoryStore
from ledger.stores.port import Store
from ledger.stores.redis import RedisStore, Revive

CONNECT_SECONDS = 5.0

_LATER = ("redis+cluster", "redis+sentinel")
_SERVERS = ("redis", "rediss", "unix")
_KNOWN = "redis://, rediss://, unix://, embedded:///folder, memory://"

_shared_memory: dict[str, MemoryServer] = {}


def open_store(
    url: str, *, clock: Clock | None = None, partition_count: int | None = None, revive: Revive | None = None
) -> Store:
    """The store that a URL names, not yet started. Raises InputError for a URL that names none.

    `memory://` is a ledger of its own each time, `memory://name` one that this process shares. `embedded://` is opened
    by `ledger.client`, which holds the server as long as it is used.
    """
    scheme = url.partition("://")[0]
    if scheme == "memory":
        return MemoryStore(_memory_server(url.partition("://")[2], clock, partition_count))
    if scheme in _SERVERS:
        return RedisStore(_connector(url), partition_count=partition_count, clock=clock, revive=revive)
    if scheme in _LATER:
        raise InputError(f"`{scheme}://` is not served by this version yet; use one of {_KNOWN}")
    raise InputError(f"the URL `{redact(url)}` is none the ledger knows; use one of {_KNOWN}")


def _memory_server(name: str, clock: Clock | None, partition_count: int | None) -> MemoryServer:
    counts = {} if partition_count is None else {"partition_count": partition_count}
    if not name:
        return MemoryServer(clock, **counts)
    return _shared_memory.setdefault(name, MemoryServer(clock, **counts))


def _connector(url: str) -> Callable[[], AbstractConnection]:
    try:
        _check_address(url)
        options: dict[str, Any] = dict(parse_url(url))
    except (ValueError, TypeError) as error:
        raise _unreadable(url, error) from None
    connection_class = options.pop("connection_class", Connection)
    options.update(
        protocol=2,
        decode_responses=False,
        # Our own link watches for answers; redis-py's default of 5 s breaks a subscriber that hears nothing.
        socket_timeout=None,
        socket_connect_timeout=CONNECT_SECONDS,
        # redis-py repeats a write whose answer was lost, ten times by default.
        retry=Retry(NoBackoff(), 0),
        client_name="permission-ledger",
    )
    if url.startswith(("redis://", "rediss://")):
        options["socket_keepalive"] = True

    def connect() -> AbstractConnection:
        connection: AbstractConnection = connection_class(**options)
        return connection

    try:
        connect()
    except (RedisError, ValueError, TypeError) as error:
        raise _unreadable(url, error) from None
    return connect


def _check_address(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme == "unix":
        if not parts.path:
            raise ValueError("unix:// needs the path of a socket")
    elif "@" in parts.path + parts.query + parts.fragment:
        # Else the beginning of the password would be taken for the host.
        raise ValueError("a password stands before the host")


def _unreadable(url: str, error: Exception) -> InputError:
    """The parser's own words may hold a piece of a password, and its error is not passed on for the same reason."""
    if "@" in url or "password" in url:
        why = "signs such as / @ : ? # [ in a user name or password are written as %2F %40 %3A %3F %23 %5B"
    else:
        why = str(error)
    return InputError(f"the URL `{redact(url)}` cannot be read: {why}")


def redact(url: str) -> str:
    """The URL without its password, for logs and messages; also one that cannot be parsed."""
    scheme, separator, rest = url.partition("://")
    if not separator:
        scheme, rest = "", url
    # What is before the last @ may be secret; but in a path that begins at once, @ is a sign like others.
    credentials, at, address = ("", "", rest) if rest.startswith("/") else rest.rpartition("@")
    if at:
        user, colon, _ = credentials.partition(":")
        credentials = f"{user}:***" if colon else "***"
    address = re.sub(r"(?i)(password=)[^&#]*", r"\1***", address)
    return f"{scheme}{separator}{credentials}{at}{address}"


def embedded_folder(url: str) -> Path:
    """The data folder that `embedded:///folder` names; without one, the default data folder."""
    path = unquote(urlsplit(url).path)
    return Path(path) if path.strip("/") else default_home()


def default_home() -> Path:
    """`PERMISSION_LEDGER_HOME`, else `$XDG_DATA_HOME/permission-ledger`, else `~/.local/share/permission-ledger`."""
    named = os.environ.get("PERMISSION_LEDGER_HOME")
    if named:
        return Path(named)
    data = os.environ.get("XDG_DATA_HOME")
    return (Path(data) if data else Path.home() / ".local" / "share") / "permission-ledger"
