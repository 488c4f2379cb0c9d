"""The servers of a URL, and whether they let somebody in without password and certificate."""

from __future__ import annotations

import stat
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, parse_qsl, unquote, urlencode, urlsplit

import msgspec

from ledger.core.errors import LedgerError
from ledger.stores.durability import durability_in
from ledger.stores.keys import Keys
from ledger.stores.redis.link import (
    CLIENT_NAME,
    Address,
    Commands,
    ConfirmedLink,
    Link,
    LinkError,
    Revive,
    ServerConnection,
    Servers,
    ServerTarget,
    WakeUps,
)
from ledger.stores.redis.replies import Refusal
from ledger.stores.redis.wake_ups import ServerWakeUps

_CLUSTER_SECONDS: Final = 1.0
"""The limit on a node's reply with the slot map; a slower node is skipped."""

_SENTINEL_PORT: Final = 26379
_SERVER_PORT: Final = 6379

_OWN_OPTIONS: Final = frozenset({"db", "password", "username"})


MakeConnection = Callable[[], ServerConnection]


class OneServer:
    """An implementation of `ledger.stores.redis.link.Servers` over one connection factory."""

    def __init__(
        self,
        connect: MakeConnection,
        *,
        link: type[Link] = Link,
        close: Callable[[], Awaitable[None]] | None = None,
        others_take_over: bool = False,
    ) -> None:
        self.others_take_over = others_take_over
        self._connect = connect
        self._link = link
        self._close = close

    def commands(self, answer_seconds: float, *, confirmed: bool = False) -> Commands:
        link = self._link(self._connect, answer_seconds)
        return ConfirmedLink(link) if confirmed else link

    def wake_ups(self, keys: Keys, revive: Revive | None) -> WakeUps:
        return ServerWakeUps(self._connect, keys, revive)

    async def close(self) -> None:
        if self._close is not None:
            await self._close()


def servers_of(url: str) -> Servers:
    """Return the servers of a URL with a known scheme. Raises ValueError or TypeError, whose text may hold a password."""
    _check_address(url)
    scheme = url.partition("://")[0]
    if scheme.endswith("+cluster"):
        return _cluster(url)
    if scheme.endswith("+sentinel"):
        return _sentinels(url)
    return OneServer(partial(ServerConnection, _target(url)))


def _target(url: str) -> ServerTarget:
    """Return the target of a URL of one server; redis-py reads TLS, and every option that the ledger does not know."""
    target = _plain_target(url)
    parts = urlsplit(url)
    if parts.scheme == "rediss" or parse_qs(parts.query).keys() - _OWN_OPTIONS:
        from ledger.stores.redis.redis_py import options_of, tls_of  # noqa: PLC0415 - redis-py takes long to import

        return target._replace(tls=tls_of(options_of(url)))
    return target


def _plain_target(url: str) -> ServerTarget:
    parts = urlsplit(url)
    query = dict(reversed(parse_qsl(parts.query)))
    is_socket = parts.scheme == "unix"
    database = query.get("db") or ("" if is_socket else unquote(parts.path).replace("/", ""))
    return ServerTarget(
        (unquote(parts.hostname or "localhost"), parts.port or _SERVER_PORT),
        unquote(parts.path) if is_socket else "",
        unquote(parts.username or "") or query.get("username", ""),
        unquote(parts.password or "") or query.get("password", ""),
        int(database) if "db" in query or database.isdecimal() else 0,
    )


def _cluster(url: str) -> Servers:
    from redis.asyncio.cluster import ClusterNode, RedisCluster  # noqa: PLC0415 - as above
    from redis.asyncio.retry import Retry  # noqa: PLC0415
    from redis.backoff import NoBackoff  # noqa: PLC0415

    from ledger.stores.redis.cluster import Cluster, Topology  # noqa: PLC0415
    from ledger.stores.redis.redis_py import options_of, tls_of  # noqa: PLC0415

    plain, addresses = _split_addresses(url, _SERVER_PORT)
    options = options_of(plain)
    target = _plain_target(plain)._replace(tls=tls_of(options))
    if target.database:
        raise ValueError("a cluster has no databases")

    def connect_to(address: Address) -> Callable[[], ServerConnection]:
        return partial(ServerConnection, target._replace(address=address))

    def client() -> RedisCluster:
        return RedisCluster(
            startup_nodes=[ClusterNode(*address) for address in addresses],
            username=target.username or None,
            password=target.password or None,
            client_name=CLIENT_NAME,
            protocol=2,
            # redis-py otherwise reads its own version from disk for every connection, and sends it with two commands.
            driver_info=None,
            # redis-py repeats a command without a reply, ten times by default.
            retry=Retry(NoBackoff(), 0),
            require_full_coverage=False,
            socket_timeout=_CLUSTER_SECONDS,
            socket_connect_timeout=_CLUSTER_SECONDS,
            ssl=target.tls is not None,
            **_only_tls(options),
        )

    return Cluster(Topology(client), connect_to)


def _sentinels(url: str) -> Servers:
    from ledger.stores.redis.redis_py import PrimaryLink, options_of, primary_of, tls_of  # noqa: PLC0415 - as above

    plain, addresses = _split_addresses(url, _SENTINEL_PORT)
    service, _, database = unquote(urlsplit(plain).path).strip("/").partition("/")
    if not service:
        raise ValueError("redis+sentinel:// needs the name of a service: redis+sentinel://host:port/SERVICE")
    if database and not database.isdecimal():
        raise ValueError("what follows the service's name is the number of a database")
    options = options_of(plain)
    # Sentinels have separate passwords, and the servers' TLS or none.
    to_sentinels = {name: options.pop(f"sentinel_{name}", None) for name in ("username", "password")}
    wanted = options.pop("sentinel_tls", "no")
    tls = tls_of(options)
    if wanted not in ("yes", "no"):
        raise ValueError(f"sentinel_tls is yes or no, not {wanted}")
    if wanted == "yes":
        if tls is None:
            raise ValueError("sentinel_tls needs rediss+sentinel://")
        to_sentinels.update(ssl=True, **_only_tls(options))
    find, close = primary_of(addresses, service, to_sentinels)
    target = _plain_target(plain)
    target = target._replace(tls=tls, primary=find, database=int(database or target.database))
    return OneServer(partial(ServerConnection, target), link=PrimaryLink, close=close, others_take_over=True)


def _only_tls(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name.startswith("ssl_")}


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


ANSWER_SECONDS: Final = 5.0

_OURS: Final = frozenset(
    {"username", "password", "ssl_certfile", "ssl_keyfile", "ssl_password"},
)
"""Credentials among the members of a URL's query."""


class OpenDoors(msgspec.Struct, frozen=True, kw_only=True):
    """The ways to access a server without credentials."""

    without_credentials: bool = False
    socket_of_everybody: str | None = None


async def open_doors(url: str) -> OpenDoors:
    """Try the URL's servers without credentials; a server in this process's memory has no access from outside."""
    if url.startswith("memory://"):
        return OpenDoors()
    socket = _socket_for_everybody(url)
    return OpenDoors(
        without_credentials=await _lets_strangers_in(url), socket_of_everybody=None if socket is None else str(socket)
    )


async def _lets_strangers_in(url: str) -> bool:
    """Return whether a server of this URL answers a read of the ledger's key without credentials."""
    servers = servers_of(durability_in(_without_credentials(url))[0])
    commands = servers.commands(ANSWER_SECONDS)
    try:
        for server in await commands.everywhere():
            [reply] = await server.run([("EXISTS", Keys(1).config())])
            if not isinstance(reply, Refusal):
                return True
    except (LinkError, LedgerError, OSError):
        # Refused before the read: by password, by certificate, or by a cluster that does not return its slot map.
        return False
    finally:
        await commands.close()
        await servers.close()
    return False


def _socket_for_everybody(url: str) -> Path | None:
    """Return the path of the URL's unix socket if every user of this machine may connect to it."""
    parts = urlsplit(url)
    if parts.scheme != "unix":
        return None
    path = Path(unquote(parts.path))
    try:
        is_open = bool(path.stat().st_mode & stat.S_IWOTH)
        return path if is_open and all(one.stat().st_mode & stat.S_IXOTH for one in path.parents) else None
    except OSError:
        return None


def _without_credentials(url: str) -> str:
    parts = urlsplit(url)
    query = [(name, value) for name, value in parse_qsl(parts.query, keep_blank_values=True) if name not in _OURS]
    # Not built by urlunsplit, which drops the slashes of `unix:///path`.
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}?{urlencode(query)}".rstrip("?")
