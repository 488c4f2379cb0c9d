"""The push services that may be called: those of the browsers' makers, and those that the operator names.

The address of a subscription comes from a browser, so it is input: without this list a signed-in person could make the
ledger's machines call any address of their network. An operator's e-mail address goes with every call.
"""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable, Iterable
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import Final
from urllib.parse import SplitResult, urlsplit

from ledger.core.errors import InputError
from ledger.core.limits import ENDPOINT_LENGTH_CHARS

MAKERS: Final = (
    "fcm.googleapis.com",
    "push.services.mozilla.com",
    "push.apple.com",
    "notify.windows.com",
)
"""The domains of the push services of Chromium, Firefox, Safari and Edge, with the names below them."""

NAME_CHARS: Final = 253
_LABEL: Final = "[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_NAME: Final = re.compile(rf"{_LABEL}(?:\.{_LABEL})*", re.ASCII)
"""A name that the DNS can hold, in lower case. Resolvers and HTTP clients fail in ways of their own for any other."""

ADDRESSES_COUNT: Final = 4
"""Addresses of a push service that are tried, in the resolver's order."""

HTTPS_PORT: Final = 443
PORT_MAX: Final = 65535

_NAT64: Final = IPv6Network("64:ff9b::/96")
"""IPv4 addresses as a translator writes them (RFC 6052)."""

Resolve = Callable[[str], Awaitable[list[str]]]
"""Returns the addresses of a host for TCP, without scope. Raises OSError."""


class PushAddressError(InputError):
    """An address that is not one of a push service."""

    code = "INPUT"


def named_service(text: str) -> str:
    """Return a service that the operator names, `HOST` or `HOST:PORT`, as it is compared. Raises InputError."""
    try:
        parts = urlsplit(f"//{text}")
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    if not parts.hostname or parts.netloc != text or parts.username is not None or port == 0:
        raise InputError(
            f"the push service `{text}` is not a host; write it like `push.example.com` or `10.0.0.7:8443`"
        )
    return _place(parts.hostname, port)


async def resolve(host: str) -> list[str]:
    """Return the addresses that this machine's resolver has for a host. Raises OSError."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, HTTPS_PORT, type=socket.SOCK_STREAM)
    except UnicodeError as error:
        raise OSError(f"the name `{host}` has a part that is too long") from error
    return [str(address[0]).partition("%")[0] for *_, address in found]


def is_public(text: str) -> bool:
    """Return whether an address is one of the internet, also the IPv4 address that an IPv6 address stands for."""
    address = ip_address(text)
    return all(one.is_global and not one.is_multicast for one in (address, *_within(address)))


def _within(address: IPv4Address | IPv6Address) -> list[IPv4Address]:
    if isinstance(address, IPv4Address):
        return []
    found = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
    if address in _NAT64:
        found.append(IPv4Address(int(address) & 0xFFFFFFFF))
    return [one for one in found if one is not None]


class PushServices:
    """The services that may be called. `named` are those of the operator besides the makers'."""

    def __init__(self, named: Iterable[str] = (), resolver: Resolve = resolve) -> None:
        self._named = frozenset(named_service(one) for one in named)
        self._resolve = resolver

    def check(self, endpoint: str) -> SplitResult:
        """Return the parts of a subscription's address. Raises PushAddressError with what is wrong with it."""
        if len(endpoint) > ENDPOINT_LENGTH_CHARS or not endpoint.isascii() or not endpoint.isprintable():
            raise PushAddressError(
                f"the endpoint is not an address of at most {ENDPOINT_LENGTH_CHARS} ASCII characters"
            )
        try:
            parts = urlsplit(endpoint)
            port = parts.port
        except ValueError as error:
            raise PushAddressError("the endpoint is not an address") from error
        if parts.scheme != "https" or not parts.hostname:
            raise PushAddressError("the endpoint must be an `https://` address")
        if parts.username is not None or parts.password is not None or parts.fragment or set(endpoint) & set(" \\"):
            raise PushAddressError("the endpoint must be an address without a user, a fragment and backslashes")
        if not self._is_known(parts.hostname, port):
            raise PushAddressError(
                f"`{_place(parts.hostname, port)}` is not a push service known here; an operator adds it with "
                "`serve --push-service`, and in the notifier's configuration"
            )
        return parts

    async def addresses(self, parts: SplitResult) -> list[str]:
        """Return the addresses to connect to, all of them public; none for a service that the operator named.

        The name is resolved here alone: who connected by the name afterwards might get another answer, a private
        address among them. Raises PushAddressError.
        """
        host = parts.hostname or ""
        if _place(host, parts.port) in self._named:
            return []
        try:
            found = await self._resolve(host)
        except OSError as error:
            raise PushAddressError(f"the name `{host}` of the push service cannot be resolved") from error
        if not found or not all(map(is_public, found)):
            raise PushAddressError(f"`{host}` has a private address here, which is not called")
        return found[:ADDRESSES_COUNT]

    def _is_known(self, host: str, port: int | None) -> bool:
        if _place(host, port) in self._named:
            return True
        is_name = len(host) <= NAME_CHARS and _NAME.fullmatch(host) is not None
        return is_name and port in (None, HTTPS_PORT) and any(host == one or host.endswith(f".{one}") for one in MAKERS)


def _place(host: str, port: int | None) -> str:
    written = f"[{host}]" if ":" in host else host
    return written.lower() if port in (None, HTTPS_PORT) else f"{written.lower()}:{port}"


_ADDRESS: Final = re.compile(r"[A-Za-z0-9._%+-]{1,64}@(?:[A-Za-z0-9-]{1,63}\.)+[A-Za-z]{2,63}")


def check_contact(text: str) -> str:
    """Return the address without `mailto:`. Raises InputError."""
    address = text.removeprefix("mailto:")
    if _ADDRESS.fullmatch(address) is None:
        raise InputError(f"the contact `{text[:100]}` is not an e-mail address; write it like `ops@example.com`")
    return address
