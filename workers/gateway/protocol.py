"""uvicorn's HTTP protocol with further limits: the time for a request to arrive, and the size of its head.

The application limits bodies; this class disconnects a caller who sends too slowly, or headers without end.
"""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from workers.gateway.edge import completed_headers
from workers.gateway.events.readers import TRANSPORT
from workers.gateway.problems import PROBLEM_JSON, problem_body

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
