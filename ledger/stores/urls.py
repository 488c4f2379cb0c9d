"""Creation of a store from a URL."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from redis.asyncio.cluster import ClusterNode, RedisCluster
from redis.asyncio.connection import AbstractConnection, Connection, SSLConnection, parse_url
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisClusterException, RedisError

from ledger.core.errors import InputError
from ledger.stores.clock import Clock
from ledger.stores.durability import Durability, durability_in
from ledger.stores.memory import MemoryServer, MemoryStore
from ledger.stores.port import Store
from ledger.stores.redis.cluster import Cluster
from ledger.stores.redis.cluster_topology import Address, Topology
from ledger.stores.redis.older_processes import CLIENT_NAME
from ledger.stores.redis.one_server import OneServer
from ledger.stores.redis.sentinel import PrimaryLink, primary_of
from ledger.stores.redis.servers import Revive, Servers
from ledger.stores.redis.store import RedisStore

CONNECT_SECONDS = 5.0

_SERVERS = ("redis", "rediss", "unix")
_CLUSTERS = ("redis+cluster", "rediss+cluster")
_SENTINELS = ("redis+sentinel", "rediss+sentinel")
_KNOWN = "redis://, rediss://, unix://, redis+cluster://, redis+sentinel://, embedded:///folder, memory://"

_CLUSTER_SECONDS = 1.0
"""The limit on a node's reply with the slot map; a slower node is skipped."""

_SENTINEL_PORT = 26379
_SERVER_PORT = 6379

_shared_memory: dict[str, MemoryServer] = {}


def open_store(
    url: str,
    *,
    clock: Clock | None = None,
    partition_count: int | None = None,
    revive: Revive | None = None,
    durability: Durability | None = None,
) -> Store:
    """Return the store of a URL, not yet started. Raises InputError for an unsupported URL.

    `memory://` is a new ledger each time, `memory://name` one that this process shares. `embedded://` is opened by
    `StoreConnection`, which holds the server while it is used. `durability` takes precedence over the URL's query.
    """
    scheme = url.partition("://")[0]
    if scheme == "memory":
        return MemoryStore(_memory_server(url.partition("://")[2], clock, partition_count))
    if scheme not in _SERVERS + _CLUSTERS + _SENTINELS:
        raise InputError(f"unsupported URL scheme in `{redact(url)}`; use one of {_KNOWN}")
    address, in_url = durability_in(url)
    return RedisStore(
        _servers(scheme, address),
        partition_count=partition_count,
        clock=clock,
        revive=revive,
        durability=durability or in_url,
    )


def servers_of(url: str) -> Servers:
    """Return the servers of a URL with a known scheme, without a store. Raises InputError."""
    address, _ = durability_in(url)
    return _servers(address.partition("://")[0], address)


def _servers(scheme: str, url: str) -> Servers:
    try:
        _check_address(url)
        if scheme in _CLUSTERS:
            return _cluster(url)
        if scheme in _SENTINELS:
            return _sentinels(url)
        return _one_server(url)
    except (RedisError, RedisClusterException, ValueError, TypeError) as error:
        raise _unreadable(url, error) from None


def _memory_server(name: str, clock: Clock | None, partition_count: int | None) -> MemoryServer:
    counts = {} if partition_count is None else {"partition_count": partition_count}
    if not name:
        return MemoryServer(clock, **counts)
    return _shared_memory.setdefault(name, MemoryServer(clock, **counts))


def _one_server(url: str) -> OneServer:
    options = _options(url)
    if url.startswith(("redis://", "rediss://")):
        options["socket_keepalive"] = True
    connect = _connector(options)
    connect()
    return OneServer(connect)


def _cluster(url: str) -> Cluster:
    plain, addresses = _split_addresses(url, _SERVER_PORT)
    options = _options(plain)
    if options.pop("db", 0):
        raise ValueError("a cluster has no databases")

    def connect_to(address: Address) -> Callable[[], AbstractConnection]:
        return _connector({**options, "host": address[0], "port": address[1], "socket_keepalive": True})

    def client() -> RedisCluster:
        over_tls = issubclass(options["connection_class"], SSLConnection)
        known = {name: value for name, value in options.items() if name not in ("connection_class", "host", "port")}
        return RedisCluster(
            startup_nodes=[ClusterNode(*address) for address in addresses],
            ssl=over_tls,
            require_full_coverage=False,
            **{**known, "socket_timeout": _CLUSTER_SECONDS, "socket_connect_timeout": _CLUSTER_SECONDS},
        )

    connect_to(addresses[0])()
    return Cluster(Topology(client), connect_to)


def _sentinels(url: str) -> OneServer:
    plain, addresses = _split_addresses(url, _SENTINEL_PORT)
    service, _, database = unquote(urlsplit(plain).path).strip("/").partition("/")
    if not service:
        raise ValueError("redis+sentinel:// needs the name of a service: redis+sentinel://host:port/SERVICE")
    if database and not database.isdecimal():
        raise ValueError("what follows the service's name is the number of a database")
    options = _options(plain)
    for name in ("host", "port"):
        options.pop(name, None)
    options.update(socket_keepalive=True, db=int(database or options.get("db", 0)))
    # Sentinels have separate passwords.
    to_sentinels = {name: options.pop(f"sentinel_{name}", None) for name in ("username", "password")}
    to_sentinels.update(_tls_to_sentinels(options.pop("sentinel_tls", "no"), options))
    connect, close = primary_of(addresses, service, options, to_sentinels)
    connect()
    return OneServer(connect, link=PrimaryLink, close=close, others_take_over=True)


def _tls_to_sentinels(wanted: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the TLS options of the sentinels: none, or those of the servers."""
    if wanted not in ("yes", "no"):
        raise ValueError(f"sentinel_tls is yes or no, not {wanted}")
    if wanted == "no":
        return {}
    over_tls = issubclass(options["connection_class"], SSLConnection)
    if not over_tls:
        raise ValueError("sentinel_tls needs rediss+sentinel://")
    return {"ssl": True, **{name: value for name, value in options.items() if name.startswith("ssl_")}}


def _options(url: str) -> dict[str, Any]:
    """Return the connection options of a URL of a single server."""
    options: dict[str, Any] = dict(parse_url(url))
    return {
        "connection_class": Connection,
        **options,
        "protocol": 2,
        "decode_responses": False,
        # Our link has a timeout of its own; redis-py's default of 5 s disconnects an idle subscriber.
        "socket_timeout": None,
        "socket_connect_timeout": CONNECT_SECONDS,
        # redis-py repeats a write without a reply, ten times by default.
        "retry": Retry(NoBackoff(), 0),
        "client_name": CLIENT_NAME,
    }


def _connector(options: Mapping[str, Any]) -> Callable[[], AbstractConnection]:
    rest = dict(options)
    connection_class = rest.pop("connection_class")

    def connect() -> AbstractConnection:
        connection: AbstractConnection = connection_class(**rest)
        return connection

    return connect


def _split_addresses(url: str, default_port: int) -> tuple[str, list[Address]]:
    """Split a URL of several servers into that of the first, and the addresses of all."""
    scheme, _, rest = url.partition("://")
    # A path begins at the first slash, unless a query precedes it: its values may hold slashes, too.
    begins = min(f"{rest}/?".index(sign) for sign in "/?")
    authority, tail = rest[:begins], rest[begins:]
    credentials, at, hosts = authority.rpartition("@")
    addresses = [_address(one, default_port) for one in hosts.split(",")]
    host, port = addresses[0]
    first = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return f"{scheme.partition('+')[0]}://{credentials}{at}{first}{tail}", addresses


def _address(text: str, default_port: int) -> Address:
    parts = urlsplit(f"//{text}")
    if not parts.hostname:
        raise ValueError("a host is missing: write host:port, several with commas between them")
    return parts.hostname, parts.port or default_port


def _check_address(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme == "unix":
        if not parts.path:
            raise ValueError("unix:// needs the path of a socket")
    elif "@" in parts.path + parts.query + parts.fragment:
        # Otherwise the beginning of the password would be parsed as the host.
        raise ValueError("a password stands before the host")


def _unreadable(url: str, error: Exception) -> InputError:
    """Return the error for a malformed URL, without the parser's message, which may hold part of a password."""
    if "@" in url or "password" in url:
        why = "signs such as / @ : ? # [ in a user name or password are written as %2F %40 %3A %3F %23 %5B"
    else:
        why = str(error)
    return InputError(f"the URL `{redact(url)}` cannot be read: {why}")


def redact(url: str) -> str:
    """Return the URL without its password, for logs and messages, even if it cannot be parsed."""
    scheme, separator, rest = url.partition("://")
    if not separator:
        scheme, rest = "", url
    # The text before the last @ may be secret; in a URL that starts with the path, @ has no meaning.
    credentials, at, address = ("", "", rest) if rest.startswith("/") else rest.rpartition("@")
    if at:
        user, colon, _ = credentials.partition(":")
        credentials = f"{user}:***" if colon else "***"
    address = re.sub(r"(?i)(password=)[^&#]*", r"\1***", address)
    return f"{scheme}{separator}{credentials}{at}{address}"


def url_of_environment() -> str | None:
    """Return `PERMISSION_LEDGER_URL`, else the text of `PERMISSION_LEDGER_URL_FILE`, else None. Raises InputError."""
    url, file = os.environ.get("PERMISSION_LEDGER_URL"), os.environ.get("PERMISSION_LEDGER_URL_FILE")
    if url or not file:
        return url or None
    try:
        found = Path(file).read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or "it is no text"
        raise InputError(f"the file `{file}` of PERMISSION_LEDGER_URL_FILE cannot be read: {why}") from None
    if not found:
        raise InputError(f"the file `{file}` of PERMISSION_LEDGER_URL_FILE is empty; write the ledger's URL into it")
    return found


def embedded_folder(url: str) -> Path:
    """Return the data folder of `embedded:///folder`; without a path, the default data folder."""
    path = unquote(urlsplit(url).path)
    return Path(path) if path.strip("/") else default_home()


def default_home() -> Path:
    """Return the default data folder.

    `PERMISSION_LEDGER_HOME`, else `$XDG_DATA_HOME/permission-ledger`, else `~/.local/share/permission-ledger`.
    """
    named = os.environ.get("PERMISSION_LEDGER_HOME")
    if named:
        return Path(named)
    data = os.environ.get("XDG_DATA_HOME")
    return (Path(data) if data else Path.home() / ".local" / "share") / "permission-ledger"
