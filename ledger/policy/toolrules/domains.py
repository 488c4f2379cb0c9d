"""`WebFetch(domain:host)`: the host of a URL against a host, in which `*` stands for any text."""

from __future__ import annotations

import re
from typing import Any, Final
from urllib.parse import urlsplit

_PREFIX: Final = "domain:"
_SCHEMES: Final = frozenset({"http", "https"})


def host_of(value: Any) -> str | None:
    """The host of the URL in an input, lower case, as written otherwise; None when there is none."""
    url = value.get("url") if hasattr(value, "get") else None
    if not isinstance(url, str):
        return None
    try:
        parts = urlsplit(url)
        return parts.hostname if parts.scheme in _SCHEMES else None
    except ValueError:
        return None


def matches_domain(specifier: str, host: str) -> bool:
    """Whether a specifier names a host. A dot at the host's end changes nothing.

    `*` at the start is any text, so `*.example.com` is every host below it and not `example.com`; elsewhere `*` stays
    within one label.
    """
    if not specifier.startswith(_PREFIX):
        return False
    wanted = specifier.removeprefix(_PREFIX).strip().casefold().rstrip(".")
    if wanted == "*":
        return True
    head = ".*" if wanted.startswith("*") else ""
    body = "[^.]*".join(re.escape(piece) for piece in wanted.lstrip("*").split("*"))
    return re.fullmatch(head + body, host.rstrip("."), re.DOTALL) is not None
