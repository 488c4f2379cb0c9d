"""What stands around the application: uvicorn's HTTP protocol with further limits, and a check of the host name.

The application limits bodies; the protocol disconnects a caller who sends too slowly, or headers without end. Headers
are added to every response, errors included.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

import msgspec
from litestar.enums import ScopeType
from litestar.types import ASGIApp, HTTPScope, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from workers.gateway.events.readers import TRANSPORT
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


ARRIVE_SECONDS: Final = 60.0
"""Time limit for a whole request to arrive; waiting for an answer is not limited by it."""

HEAD_BYTES_MAX: Final = 64 * 1024
"""Size limit of the address and all headers, besides what arrives with their first bytes."""


LINGER_SECONDS: Final = 2.0
LINGER_BYTES_MAX: Final = 16 * 1024 * 1024
"""Size limit of what a refused caller may go on sending. Closing a connection over unread bytes resets it, and a reset
discards a response that the caller has not read yet.
"""


class Protocol(HttpToolsProtocol):
    """The protocol, which also gives event streams access to their connections."""

    _timer: asyncio.TimerHandle | None = None
    _is_arriving = False
    _in_head = False
    _head_bytes = 0
    _is_refused = False
    _unread_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._await_rest()

    def connection_lost(self, exc: Exception | None) -> None:
        self._all_there()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._is_refused:
            self._discard(data)
            return
        was_in_head = self._in_head
        super().data_received(data)
        if not self._is_arriving:
            self._all_there()
            return
        self._await_rest()
        if was_in_head and self._in_head:
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_BYTES_MAX:
                self._refuse("HEAD_TOO_LARGE", f"the address and headers are larger than {HEAD_BYTES_MAX} bytes")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["extensions"] = {TRANSPORT: self.transport}  # type: ignore[dict-item]
        self._is_arriving = self._in_head = True
        self._head_bytes = 0

    def on_headers_complete(self) -> None:
        self._in_head = False
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._is_arriving = False
        super().on_message_complete()

    def _await_rest(self) -> None:
        if self._timer is None:
            self._timer = self.loop.call_later(ARRIVE_SECONDS, self._too_slow)

    def _all_there(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _too_slow(self) -> None:
        self._refuse("TIMEOUT", f"no complete request came within {ARRIVE_SECONDS:g} s")

    def _refuse(self, code: str, detail: str) -> None:
        """Send the refusal and close, unless a response was started already."""
        cycle: RequestResponseCycle | None = self.cycle
        answering = cycle is not None and cycle.response_started and not cycle.response_complete
        if answering or self.transport.is_closing():
            self.transport.close()
            return
        self._say(code, detail)
        self._hang_up()

    def send_400_response(self, msg: str) -> None:
        """Answer a message that is not HTTP."""
        self._say("MALFORMED", msg.rstrip(".").lower())
        self.transport.close()

    def _say(self, code: str, detail: str) -> None:
        status, body = problem_body(code, detail)
        content = msgspec.json.encode(body)
        length = b"%d" % len(content)
        own = [(b"content-type", PROBLEM_JSON.encode()), (b"content-length", length), (b"connection", b"close")]
        lines = [b"HTTP/1.1 %d %b" % (status.value, status.phrase.encode())]
        lines += [b"%b: %b" % header for header in completed_headers(own)]
        self.transport.write(b"\r\n".join([*lines, b"", content]))

    def _hang_up(self) -> None:
        """Close our side and read on for a moment, so that the caller can read the response."""
        self._is_refused = True
        self._all_there()
        self.transport.write_eof()
        self.transport.resume_reading()
        self._timer = self.loop.call_later(LINGER_SECONDS, self.transport.close)

    def _discard(self, data: bytes) -> None:
        self._unread_bytes += len(data)
        if self._unread_bytes > LINGER_BYTES_MAX:
            self.transport.close()
