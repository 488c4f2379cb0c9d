"""Requests to a gateway without a socket, each in a task of its own, as a server has them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextvars import Context
from typing import Any
from urllib.parse import unquote

import httpx
from litestar.types import ASGIApp


class InProcess(httpx.AsyncBaseTransport):
    """A transport to an ASGI application, which takes its callers for those of a unix socket.

    httpx's own returns a response when it is whole, which that of an event stream never is.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._exchanges: set[_Exchange] = set()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        exchange = _Exchange(self._app, request, await request.aread())
        self._exchanges.add(exchange)
        try:
            status, headers = await asyncio.shield(exchange.head)
        except BaseException:
            await exchange.aclose()
            raise
        return httpx.Response(status, headers=headers, stream=exchange)

    async def aclose(self) -> None:
        """Hang up, and wait for the application to be done with every request."""
        for exchange in self._exchanges:
            await exchange.aclose()
        await asyncio.gather(*(exchange.task for exchange in self._exchanges))


class _Exchange(httpx.AsyncByteStream):
    """One request, and the body of its response."""

    def __init__(self, app: ASGIApp, request: httpx.Request, body: bytes) -> None:
        self._unread: bytes | None = body
        self._has_body = request.method != "HEAD"
        self._chunks: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._hung_up = asyncio.Event()
        self.head: asyncio.Future[tuple[int, list[tuple[bytes, bytes]]]] = asyncio.get_running_loop().create_future()
        # Nothing that the caller has in its context comes through a socket.
        self.task = asyncio.create_task(self._run(app, scope_of(request)), context=Context())

    async def _run(self, app: Any, scope: dict[str, Any]) -> None:
        try:
            await app(scope, self._receive, self._send)
        except Exception as error:
            if self.head.done():
                raise
            self.head.set_exception(error)
        finally:
            self._chunks.put_nowait(None)

    async def _receive(self) -> dict[str, Any]:
        if self._unread is None:
            await self._hung_up.wait()
            return {"type": "http.disconnect"}
        body, self._unread = self._unread, None
        return {"type": "http.request", "body": body, "more_body": False}

    async def _send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.head.set_result((message["status"], list(message["headers"])))
            return
        if self._has_body:
            self._chunks.put_nowait(message.get("body", b""))
        if not message.get("more_body"):
            self._chunks.put_nowait(None)
            self._hung_up.set()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while (chunk := await self._chunks.get()) is not None:
            yield chunk

    async def aclose(self) -> None:
        self._hung_up.set()


def scope_of(request: httpx.Request) -> dict[str, Any]:
    """Return the ASGI scope of a request, as a server with a unix socket gives it."""
    path, _, query = request.url.raw_path.partition(b"?")
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": request.url.scheme,
        "path": unquote(path.decode()),
        "raw_path": path,
        "query_string": query,
        "root_path": "",
        "headers": [(name.lower(), value) for name, value in request.headers.raw],
        "client": None,
        "server": None,
        "state": {},
    }
