"""A hook that the gateway serves: what the command takes from its process comes from a request here.

The hook's code waits in a thread, and its exchanges with the gateway are requests inside this process, with the headers
of the caller: it may do what the caller's token may, and no more.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from time import monotonic, sleep
from typing import Any, Final
from urllib.parse import unquote

from litestar.types import ASGIApp

from workers.bridges.hooks.exchange import LOOK_SECONDS, HookProcess, ReaderGoneError, accepted
from workers.gateway.names import with_slashes_in_ids
from workers.gateway.quotas import RateLimitedError
from workers.transport.place import BridgeError

WAITING_COUNT: Final = 128
"""Hooks that wait at once, each in a thread."""

_PASSED_ON: Final = frozenset({b"authorization", b"traceparent", b"tracestate"})


class HookThreads:
    """The threads in which hooks wait."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(WAITING_COUNT, "hook")
        self._count = 0

    async def run(self, work: Callable[[], Any]) -> Any:
        """Return the result of blocking work. Raises RateLimitedError when too many hooks wait."""
        if self._count == WAITING_COUNT:
            raise RateLimitedError(f"{WAITING_COUNT} hooks wait already; answer some of them in the inbox")
        self._count += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, work)
        finally:
            self._count -= 1

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)


class ServedHook(HookProcess):
    """The process of a hook, of which each member comes from a request. `folders` are the only ones it opens files in."""

    ends_with = "asker_gave_up"

    def __init__(
        self, app: ASGIApp, scope: Any, folders: Sequence[str], entrypoint: str | None, stopping: asyncio.Event
    ) -> None:
        self.entrypoint = entrypoint
        self.folder = folders[0]
        self._folders = [os.path.realpath(folder) for folder in folders]
        self.may_open = self._is_inside
        self._app: Any = with_slashes_in_ids(app)
        self._headers = [one for one in scope["headers"] if one[0] in _PASSED_ON]
        self._ends = {name: scope.get(name) for name in ("client", "server")}
        self._stopping = stopping
        self._left = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def _is_inside(self, path: str) -> bool:
        """Return whether a path, with all links followed, is in one of the folders."""
        try:
            real = os.path.realpath(path)
        except ValueError:  # half a character, or a zero byte
            return False
        return any(os.path.commonpath([folder, real]) == folder for folder in self._folders)

    def on_end(self, ended: Callable[[], None]) -> None:
        """Do nothing: the end of the connection ends the wait."""

    async def leave_with(self, receive: Callable[[], Any]) -> None:
        """End the wait when the client closes its connection."""
        while (await receive())["type"] != "http.disconnect":
            pass
        self._left.set()

    def _pause(self, seconds: float) -> None:
        self._require_reader(watched=True)
        sleep(seconds)

    def _require_reader(self, *, watched: bool) -> None:
        if watched and self._left.is_set():
            raise ReaderGoneError("the client has closed the connection")
        if self._stopping.is_set():
            raise BridgeError("the gateway stops; ask again")

    def _exchange(
        self, method: str, path: str, payload: bytes, limit: float, look: Callable[[], None] | None, *, watched: bool
    ) -> dict[str, Any]:
        until = monotonic() + limit
        exchanging = asyncio.run_coroutine_threadsafe(self._request(method, path, payload), self._loop)
        try:
            while not exchanging.done():
                self._require_reader(watched=watched)
                if look is not None:
                    look()
                if monotonic() > until:
                    raise EOFError("it did not answer in time")
                wait([exchanging], LOOK_SECONDS)
        finally:
            exchanging.cancel()
        return accepted(*exchanging.result())

    async def _request(self, method: str, path: str, payload: bytes) -> tuple[int, dict[str, Any]]:
        raw, _, query = path.encode().partition(b"?")
        length = b"%d" % len(payload)
        headers = [*self._headers, (b"content-type", b"application/json"), (b"content-length", length)]
        scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": unquote(raw.decode()),
            "raw_path": raw,
            "query_string": query,
            "root_path": "",
            "headers": headers,
            "extensions": {},
            **self._ends,
        }
        unread = [payload]
        status, pieces = 0, []

        async def receive() -> dict[str, Any]:
            if unread:
                return {"type": "http.request", "body": unread.pop(), "more_body": False}
            await self._left.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            else:
                pieces.append(message.get("body", b""))

        await self._app(scope, receive, send)
        body = b"".join(pieces)
        found = json.loads(body) if body else {}
        return status, found if isinstance(found, dict) else {"answer": found}
