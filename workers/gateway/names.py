"""The names by which a gateway may be called, and the origins that are its own.

A page that gives its own name our address (DNS rebinding) is to its browser of one origin with us. It calls us by that
name, in the header `Host`, so a name that is not ours is refused, with a token or without.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterable
from ipaddress import ip_address
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from ledger.core.errors import InputError

LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})
ON_SOCKETS: Final = "gateway"
"""What our own programs say where a unix socket is the address; no browser reaches one."""

HOST: Final = re.compile(r"(?:\[(?P<address>[0-9A-Fa-f:.]+)\]|(?P<name>[A-Za-z0-9._-]+))(?P<port>:[0-9]{1,5})?")
"""`Host` as RFC 9110, 7.2 has it, of names that the DNS can hold."""

IS_URL: Final = "://"
PORT_MAX: Final = 65535
DEFAULT_PORTS: Final = {"http": 80, "https": 443}


class Names(msgspec.Struct, frozen=True):
    """Our names in lower case. With `any_address` every IP address is one too: none of them can be rebound."""

    known: frozenset[str]
    any_address: bool = False

    def has(self, host: str, *, on_socket: bool) -> bool:
        """Return whether this is a value of `Host` for us, with whatever port: a proxy may listen on another one."""
        name = host_name(host)
        if name is None:
            return False
        return name in self.known or (self.any_address and _is_address(name)) or (on_socket and name == ON_SOCKETS)


def names_of(listeners: Iterable[socket.socket], public_url: str, more: Iterable[str]) -> Names:
    """Return the names of a gateway that listens there: this machine's own, the public one, and those it is told."""
    hosts = [one.getsockname()[0] for one in listeners if not isinstance(one.getsockname(), str)]
    told = [urlsplit(one).hostname if IS_URL in one else one for one in (public_url, *more)]
    is_open = not all(host in LOOPBACK for host in hosts)
    known = {*LOOPBACK, *hosts, *(one for one in told if one), *([socket.gethostname()] if is_open else [])}
    return Names(frozenset(name.lower() for name in known), any_address=is_open)


def host_name(host: str) -> str | None:
    """Return the name or address in a value of `Host`, in lower case; None where it is no such value."""
    found = HOST.fullmatch(host)
    if found is None or int((found["port"] or ":0")[1:]) > PORT_MAX:
        return None
    return str(found["address"] or found["name"]).lower().removesuffix(".")


def check_host(text: str) -> None:
    """Raises InputError for what is neither a name nor an address in front of us as people write it."""
    parts = urlsplit(text)
    is_origin = parts.scheme in DEFAULT_PORTS and parts.path in ("", "/") and not parts.query + parts.fragment
    found = HOST.fullmatch(parts.netloc if is_origin else text)
    if found is None or (found["port"] and not is_origin):
        raise InputError(
            f"the --host `{text}` is no name of a machine; write it like `ledger.internal` or `https://ledger.example.com`"
        )


def origin_of(url: str) -> str:
    """Return scheme, host and port of an address as a browser writes an origin. Raises ValueError."""
    parts = urlsplit(url)
    host = f"[{parts.hostname}]" if parts.hostname and ":" in parts.hostname else parts.hostname
    port = "" if parts.port in (None, DEFAULT_PORTS.get(parts.scheme)) else f":{parts.port}"
    return f"{parts.scheme}://{host}{port}"


def own_origins(scope: Any, host: str | None, told: Iterable[str]) -> frozenset[str]:
    """Return the origins of our pages in the eyes of a browser that sends this request.

    Those that we are told, and the address by which we are called. Of a name that we are told with its scheme only that
    scheme counts: behind TLS a page without it is of another origin.
    """
    own = frozenset(origin_of(one) for one in told if IS_URL in one)
    if host is None or host_name(host) is None:
        return own
    has_scheme = any(one == origin_of(f"{urlsplit(one).scheme}://{host}") for one in own)
    return own if has_scheme else own | {origin_of(f"{scope.get('scheme', 'http')}://{host}")}


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
