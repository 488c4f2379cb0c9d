"""Ids that hold a slash, in addresses: `%2F` is part of an id, `/` divides the address (RFC 3986, 2.2).

Servers decode an address before it is routed, so that the two cannot be told apart any more. Here an encoded slash goes
through routing as a character that no id can hold, and is a slash again when it is given to a handler.

Servers also put a sign of replacement for what is no UTF-8, and so take two different addresses for one. There is nothing
at such an address.
"""

from __future__ import annotations

import re
from typing import Any, Final
from urllib.parse import unquote_to_bytes

from litestar.types import ASGIApp, Receive, Scope, Send

ENCODED: Final = re.compile(rb"%2[Ff]")
IN_ID: Final = "\uf02f"
"""For private use, and so not printable, as all of an id must be."""

NOWHERE: Final = "/" + IN_ID


def with_slashes_in_ids(app: ASGIApp) -> ASGIApp:
    """The same application, to which `%2F` is no divider."""

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
    """After routing: ids as they are."""
    if IN_ID in scope["path"]:
        scope["path"] = scope["path"].replace(IN_ID, "/")
        # A new one: the router keeps its own for the next request to the same address.
        scope["path_params"] = {
            name: value.replace(IN_ID, "/") if isinstance(value, str) else value
            for name, value in scope["path_params"].items()
        }
