r"""Addresses as the programs that fetch them read them. Pure.

Browsers and node follow the WHATWG URL standard (ada-url): `https:evil.com`, `https:\\evil.com`,
`https://evil.com\@good.com` and `https://%65vil.com` all lead to `evil.com`. Other programs read by RFC 3986. A rule
that denies or asks holds for every reading, and one that allows must hold for all of them.
"""

from __future__ import annotations

import ipaddress
import unicodedata
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

import msgspec

from ledger.core.addresses import split_address

if TYPE_CHECKING:
    from ada_url import URL

_WEB: Final = frozenset({"http:", "https:"})
_FULL_STOPS: Final = str.maketrans("\u3002\uff0e\uff61", "...")


class UrlReading(msgspec.Struct, frozen=True):
    """The readings of an address.

    `hosts` are all hosts that some program may read from it, in lower case and without a dot at the end. `texts` are
    its spellings, that of the standard first; none for an address that is not `http` or `https`. `is_clear`: all
    readers agree on the host, and no user name stands before it. `host` is that of the standard, its dot kept.
    """

    hosts: frozenset[str]
    texts: tuple[str, ...] = ()
    is_clear: bool = False
    host: str | None = None


def read_address(text: str) -> UrlReading:
    """Read an address in every way, without any name lookup."""
    url, plain = _standard(text), _plain_host(text)
    if url is None:
        guessed = _standard("https://" + text)
        named = {host for host in (plain, _host(guessed) if guessed else None) if host}
        return UrlReading(frozenset(named))
    host = _host(url)
    hosts = frozenset(one for one in (host, plain, _of_mapped(host)) if one)
    if url.protocol not in _WEB or not host:
        return UrlReading(hosts)
    clear = plain in (host, None) and not (url.username or url.password)
    return UrlReading(hosts, tuple(dict.fromkeys(_texts(url))), clear, url.hostname)


def ascii_host(host: str) -> str:
    """Return a host, which may contain `*`, in the form that parsed addresses have; unchanged if it is no host."""
    text = unicodedata.normalize("NFKC", host.translate(_FULL_STOPS)).casefold().rstrip(".")
    if "*" not in text:
        url = _standard(f"http://{text}/")
        return (_host(url) if url is not None else None) or text
    return ".".join(label if "*" in label or label.isascii() else ascii_host(label) for label in text.split("."))


def _standard(text: str) -> URL | None:
    from ada_url import URL  # noqa: PLC0415 - takes long to load, and few calls hold an address

    try:
        return URL(text)
    except ValueError:
        return None


def _host(url: URL) -> str:
    return url.hostname.rstrip(".").lower()


def _plain_host(text: str) -> str | None:
    host = split_address(text).hostname
    return ascii_host(host) if host else None


def _of_mapped(host: str) -> str | None:
    """Return the IPv4 address that an IPv6 address maps."""
    try:
        mapped = ipaddress.IPv6Address(host.strip("[]")).ipv4_mapped
    except ValueError:
        return None
    return str(mapped) if mapped else None


def _texts(url: URL) -> list[str]:
    """Return the address as the standard writes it, then without the parts that do not change its target."""
    bare = f"{url.protocol}//{url.host}{url.pathname}{url.search}"
    host = f"{url.protocol}//{_host(url)}{url.pathname}{url.search}"
    found = [bare, url.href, host]
    other = "http:" if url.protocol == "https:" else "https:"
    found += [other + text.partition(":")[2] for text in (bare, host)]
    found += [text.removesuffix("/") for text in found if url.pathname == "/" and not url.search]
    return [*found, *(unquote(text) for text in found if "%" in text)]
