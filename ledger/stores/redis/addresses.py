"""The servers of a URL."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final
from urllib.parse import parse_qs, parse_qsl, unquote, urlsplit

from ledger.core.errors import InputError
from ledger.stores.durability import durability_in
from ledger.stores.keys import Keys
from ledger.stores.redis.confirmed_link import ConfirmedLink
from ledger.stores.redis.connection import CLIENT_NAME, Address, ServerConnection, ServerTarget
from ledger.stores.redis.link import Link
from ledger.stores.redis.servers import Commands, Revive, Servers, WakeUps
from ledger.stores.redis.wake_ups import ServerWakeUps
from ledger.stores.urls import CLUSTERS, SENTINELS, redact

_CLUSTER_SECONDS: Final = 1.0
"""The limit on a node's reply with the slot map; a slower node is skipped."""

_SENTINEL_PORT: Final = 26379
_SERVER_PORT: Final = 6379

_OWN_OPTIONS: Final = frozenset({"db", "password", "username"})


MakeConnection = Callable[[], ServerConnection]


class OneServer:
    """An implementation of `ledger.stores.redis.servers.Servers` over one connection factory."""

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
        return OneServer(partial(ServerConnection, _target(url)))
    except (ValueError, TypeError) as error:
        raise _unreadable(url, error) from None


def _target(url: str) -> ServerTarget:
    """Return the target of a URL of one server; redis-py reads TLS, and every option that the ledger does not know."""
    target = _plain_target(url)
    parts = urlsplit(url)
    if parts.scheme == "rediss" or parse_qs(parts.query).keys() - _OWN_OPTIONS:
        from ledger.stores.redis.tls import options_of, tls_of  # noqa: PLC0415 - redis-py takes long to import

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

    from ledger.stores.redis.cluster import Cluster  # noqa: PLC0415
    from ledger.stores.redis.cluster_topology import Topology  # noqa: PLC0415
    from ledger.stores.redis.tls import options_of, tls_of  # noqa: PLC0415

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
    from ledger.stores.redis.sentinel import PrimaryLink, primary_of  # noqa: PLC0415 - as above
    from ledger.stores.redis.tls import options_of, tls_of  # noqa: PLC0415

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


def _unreadable(url: str, error: Exception) -> InputError:
    """Return the error for a malformed URL, without the parser's message, which may hold part of a password."""
    if "@" in url or "password" in url:
        why = "signs such as / @ : ? # [ in a user name or password are written as %2F %40 %3A %3F %23 %5B"
    else:
        why = str(error)
    return InputError(f"the URL `{redact(url)}` cannot be read: {why}")
