"""The host names that a gateway accepts, and the origins that are its own.

In DNS rebinding a page gives its own name our address, so that the browser treats us as the page's origin. The browser
then sends that name in the header `Host`. A name that is not ours is refused, with or without a token.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterable
from ipaddress import ip_address
from typing import Any, Final
from urllib.parse import unquote_to_bytes

import msgspec
from litestar.types import ASGIApp, Receive, Scope, Send

from ledger.core.addresses import split_address
from ledger.core.errors import InputError

LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})
ANY_ADDRESS: Final = frozenset({"0.0.0.0", "::"})  # noqa: S104 - nothing is bound here
ON_SOCKETS: Final = "gateway"
"""Host name that our own programs send over a unix socket; browsers cannot connect to one."""

HOST: Final = re.compile(r"(?:\[(?P<address>[0-9A-Fa-f:.]+)\]|(?P<name>[A-Za-z0-9._-]+))(?P<port>:[0-9]{1,5})?")
"""A value of `Host` (RFC 9110, 7.2), limited to names that the DNS can hold."""

IS_URL: Final = "://"
PORT_MAX: Final = 65535
DEFAULT_PORTS: Final = {"http": 80, "https": 443}


class Names(msgspec.Struct, frozen=True):
    """Our names in lower case. With `any_address` every IP address is accepted: addresses cannot be rebound."""

    known: frozenset[str]
    any_address: bool = False

    def has(self, host: str, *, on_socket: bool) -> bool:
        """Return whether this value of `Host` is ours. The port is ignored: a proxy may listen on another one."""
        name = host_name(host)
        if name is None:
            return False
        return name in self.known or (self.any_address and _is_address(name)) or (on_socket and name == ON_SOCKETS)


def names_of(listeners: Iterable[socket.socket], public_url: str, more: Iterable[str]) -> Names:
    """Return the names of a gateway with these sockets: this machine's own, the public one, and the configured ones."""
    hosts = [one.getsockname()[0] for one in listeners if not isinstance(one.getsockname(), str)]
    told = [split_address(one).hostname if IS_URL in one else one for one in (public_url, *more)]
    is_open = not all(host in LOOPBACK for host in hosts)
    known = {*LOOPBACK, *hosts, *(one for one in told if one), *([socket.gethostname()] if is_open else [])}
    return Names(frozenset(name.lower() for name in known), any_address=is_open)


def host_name(host: str) -> str | None:
    """Return the name or address in a value of `Host`, in lower case; None for any other text."""
    found = HOST.fullmatch(host)
    if found is None or int((found["port"] or ":0")[1:]) > PORT_MAX or not split_address(f"//{host}").hostname:
        return None
    return str(found["address"] or found["name"]).lower().removesuffix(".")


def check_host(text: str) -> None:
    """Raise InputError for a text that is neither a host name nor an address with its scheme."""
    parts = split_address(text)
    is_origin = parts.scheme in DEFAULT_PORTS and parts.path in ("", "/") and not parts.query + parts.fragment
    found = HOST.fullmatch(parts.netloc if is_origin else text)
    if found is None or (found["port"] and not is_origin):
        raise InputError(
            f"the --host `{text}` is not a host name; write it like `ledger.internal` or `https://ledger.example.com`"
        )


def check_public_url(text: str) -> None:
    """Raise InputError for a text that is no address of a page: links and origins are made of it."""
    parts = split_address(text)
    if parts.scheme not in DEFAULT_PORTS or not parts.hostname or not text.isascii():
        raise InputError(f"the --public-url `{text}` is not an address; write it like `https://ledger.example.com`")


def origin_of(url: str) -> str:
    """Return scheme, host and port of an address as a browser writes an origin."""
    parts = split_address(url)
    host = f"[{parts.hostname}]" if parts.hostname and ":" in parts.hostname else parts.hostname
    port = "" if parts.port in (None, DEFAULT_PORTS.get(parts.scheme)) else f":{parts.port}"
    return f"{parts.scheme}://{host}{port}"


def own_origins(scope: Any, host: str | None, told: Iterable[str]) -> frozenset[str]:
    """Return the origins of our pages as seen by the browser that sends this request.

    These are the configured origins and the address that the request names. If a name is configured with its scheme,
    only that scheme counts: behind TLS a page without TLS has another origin.
    """
    own = frozenset(origin_of(one) for one in told if IS_URL in one)
    if host is None or host_name(host) is None:
        return own
    has_scheme = any(one == origin_of(f"{split_address(one).scheme}://{host}") for one in own)
    return own if has_scheme else own | {origin_of(f"{scope.get('scheme', 'http')}://{host}")}


def passkey_origins(listeners: Iterable[socket.socket], public_url: str, more: Iterable[str]) -> frozenset[str]:
    """Return the origins at which passkeys count: `localhost` at the ports of our sockets, and the configured ones.

    What a request says of its origin is no proof of it: on this machine a passkey signs for every port of `localhost`.
    A name that is configured without a scheme stands for https.
    """
    bound = [name[:2] for one in listeners if not isinstance(name := one.getsockname(), str)]
    told = [origin_of(one if IS_URL in one else f"https://{one}") for one in (public_url, *more)]
    here = [split_address(one) for one in told] + [
        split_address(f"http://localhost:{port}") for host, port in bound if _is_here(host)
    ]
    local = [
        f"{one.scheme}://localhost" + (f":{one.port}" if one.port else "") for one in here if _is_here(one.hostname)
    ]
    return frozenset((*told, *map(origin_of, local)))


def _is_here(host: str | None) -> bool:
    return host in LOOPBACK or host in ANY_ADDRESS


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


ENCODED: Final = re.compile(rb"%2[Ff]")
IN_ID: Final = "\uf02f"
"""A private-use character: not printable, so no id can contain it."""

NOWHERE: Final = "/" + IN_ID


def with_slashes_in_ids(app: ASGIApp) -> ASGIApp:
    """Return the application with `%2F` inside ids supported."""

    async def routed(scope: Scope, receive: Receive, send: Send) -> None:
        raw = scope.get("raw_path") or b""
        if b"%" in raw:
            scope["path"] = _routed(raw)
        await app(scope, receive, send)

    return routed


def _routed(raw: bytes) -> str:
    try:
        parts = [unquote_to_bytes(part).decode() for part in ENCODED.split(raw)]
    except UnicodeDecodeError:
        return NOWHERE
    return NOWHERE if any(IN_ID in part for part in parts) else IN_ID.join(parts)


def restore_slashes(scope: Any) -> None:
    """Restore the slashes in the ids after routing."""
    if IN_ID in scope["path"]:
        scope["path"] = scope["path"].replace(IN_ID, "/")
        # A new dict: the router reuses its own for the next request to the same address.
        scope["path_params"] = {
            name: value.replace(IN_ID, "/") if isinstance(value, str) else value
            for name, value in scope["path_params"].items()
        }
