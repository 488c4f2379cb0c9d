"""A wrapper around the application: checks the host name, and adds headers to every response, errors included."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from litestar.enums import ScopeType
from litestar.types import ASGIApp, HTTPScope, Receive, Scope, Send

from workers.gateway.names import Names
from workers.gateway.problems import PROBLEM_JSON, problem_body

HEADERS: Final = (
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
)
"""Headers of responses that are no page: no caching, no framing, no guessing of types. A page sets its own."""


def with_edge(app: ASGIApp, names: Names) -> ASGIApp:
    """Return the application restricted to its own host names, with these headers where it sets none."""

    async def at_edge(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != ScopeType.HTTP:
            await app(scope, receive, send)
            return

        async def completed(message: Any) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = completed_headers(message.get("headers", ()))
            await send(message)

        if _is_called_by_name(scope, names):
            await app(scope, receive, completed)
        else:
            await _refuse(scope, completed)

    return at_edge


def completed_headers(headers: Any) -> list[tuple[bytes, bytes]]:
    """Return the headers of a response, completed with the missing ones of HEADERS."""
    own = [(bytes(name), bytes(value)) for name, value in headers]
    there = {name.lower() for name, _ in own}
    return own + [one for one in HEADERS if one[0] not in there]


def _is_called_by_name(scope: Scope, names: Names) -> bool:
    hosts = _hosts(scope)
    return len(hosts) == 1 and names.has(hosts[0], on_socket=scope.get("client") is None)


def _hosts(scope: Scope) -> list[str]:
    return [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]


async def _refuse(scope: HTTPScope, send: Any) -> None:
    hosts = _hosts(scope)
    said = f"`{hosts[0]}` is not a name of this gateway" if len(hosts) == 1 else "the request has no single `Host`"
    text = f"{said}; use an address that `serve` prints, or start it with --public-url or --host for that name"
    status, body = problem_body("WRONG_HOST", text)
    content = msgspec.json.encode(body)
    headers = [(b"content-type", PROBLEM_JSON.encode()), (b"content-length", b"%d" % len(content))]
    await send({"type": "http.response.start", "status": int(status), "headers": headers})
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else content})
