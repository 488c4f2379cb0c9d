"""The servers of a URL, as redis-py connects to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from redis.asyncio.cluster import ClusterNode, RedisCluster
from redis.asyncio.connection import AbstractConnection, Connection, SSLConnection, parse_url
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisClusterException, RedisError

from ledger.core.errors import InputError
from ledger.stores.durability import durability_in
from ledger.stores.redis.cluster import Cluster
from ledger.stores.redis.cluster_topology import Address, Topology
from ledger.stores.redis.one_server import OneServer
from ledger.stores.redis.sentinel import PrimaryLink, primary_of
from ledger.stores.redis.servers import Servers
from ledger.stores.urls import CLUSTERS, SENTINELS, redact

CONNECT_SECONDS: Final = 5.0

_CLUSTER_SECONDS: Final = 1.0
"""The limit on a node's reply with the slot map; a slower node is skipped."""

CLIENT_NAME: Final = "permission-ledger"
"""The name of the connections, as the server's CLIENT LIST shows it."""

_SENTINEL_PORT: Final = 26379
_SERVER_PORT: Final = 6379


def servers_of(url: str) -> Servers:
    """Return the servers of a URL with a known scheme, without a store. Raises InputError."""
    address, _ = durability_in(url)
    return servers_at(address.partition("://")[0], address)


def servers_at(scheme: str, url: str) -> Servers:
    """Return the servers of an address with this scheme. Raises InputError, without its password."""
    try:
        _check_address(url)
        if scheme in CLUSTERS:
            return _cluster(url)
        if scheme in SENTINELS:
            return _sentinels(url)
        return _one_server(url)
    except (RedisError, RedisClusterException, ValueError, TypeError) as error:
        raise _unreadable(url, error) from None


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
        # redis-py otherwise reads its own version from disk for every connection, and sends it with two commands.
        "driver_info": None,
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
