"""Slashes inside ids in addresses: `%2F` is part of an id, `/` divides the address (RFC 3986, 2.2).

Servers decode an address before it is routed, which makes the two equal. Here an encoded slash passes through routing
as a character that no id can contain, and becomes a slash again before a handler receives it.

Servers also decode invalid UTF-8 to the replacement character, which makes different addresses equal. Such an address
is not found.
"""

from __future__ import annotations

import re
from typing import Any, Final
from urllib.parse import unquote_to_bytes

from litestar.types import ASGIApp, Receive, Scope, Send

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
