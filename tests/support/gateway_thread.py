"""The gateway's application, in a thread with a loop of its own: made once a process, with another ledger for each test.

The application and its socket take longer to make than most tests; all that a gateway remembers is new for each test.
"""

from __future__ import annotations

import asyncio
import atexit
import shutil
import tempfile
import threading
from collections.abc import Awaitable, Callable, Coroutine
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeVar

from msgspec.structs import replace

from ledger import Ledger
from ledger.testing import TestClock
from workers.gateway import server as gateway_server
from workers.gateway.command import ServeOptions, _settings, public_url_of
from workers.gateway.gateway import Gateway
from workers.gateway.own_rules import follow_while_waiting
from workers.gateway.server import GRACE_SECONDS, ListenAddress, listen

T = TypeVar("T")

CALL_S: Final = 60.0


class GatewayThread:
    """Serves one ledger at a time."""

    def __init__(self) -> None:
        # Short: socket paths are limited in length.
        self._folder = Path(tempfile.mkdtemp(prefix="pl-gw-"))
        self.socket = self._folder / "gateway.sock"
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="gateway", daemon=True)
        self._thread.start()
        self._call(self._begin())
        atexit.register(self._end)

    def open(self, url: str, clock: TestClock | None) -> None:
        """Serve the ledger at a URL, on the server's clock (None) or the test's; returns when requests are taken."""
        self._call(self._open(url, clock))

    def close(self) -> None:
        """End all that was begun since `open`."""
        self._call(self._close())

    def with_ledger(self, work: Callable[[Ledger], Awaitable[T]]) -> T:
        """Return what some work on the served ledger returns."""

        async def done() -> T:
            return await work(self._ledger)

        return self._call(done())

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(CALL_S)

    # --- on the loop of the thread

    async def _begin(self) -> None:
        """Serve a ledger that holds nothing; the gateway object that the application knows stays for good."""
        self._ledger = Ledger.connect("memory://")
        await self._ledger.__aenter__()
        self._listener = listen(ListenAddress(path=self.socket))
        self._settings = replace(
            _settings(ServeOptions(), {}, (None, None)), public_url=public_url_of([self._listener])
        )
        self._stop = asyncio.Event()
        began: asyncio.Future[Gateway] = self._loop.create_future()
        self._serving = asyncio.create_task(
            gateway_server.run(self._ledger, self._settings, [self._listener], self._stop, began.set_result)
        )
        self._gateway = await began
        [following] = [one for one in asyncio.all_tasks() if one.get_name() == "follow rule files"]
        following.cancel()  # each test has one of its own
        self._own = asyncio.all_tasks()

    async def _open(self, url: str, clock: TestClock | None) -> None:
        ledger = Ledger.connect(url, clock=clock)
        await ledger.__aenter__()
        # All that knows the first ledger or the first gateway sees the new one in it.
        self._ledger.__dict__ = ledger.__dict__
        self._gateway.__dict__ = Gateway(self._ledger, self._settings).__dict__
        await self._gateway.start()
        self._following = asyncio.create_task(follow_while_waiting(self._gateway))

    async def _close(self) -> None:
        self._following.cancel()
        self._gateway.stop()
        requests = [one for one in self._others() if "run_asgi" in getattr(one.get_coro(), "__qualname__", "")]
        if requests:
            await asyncio.wait(requests, timeout=GRACE_SECONDS)
        await self._gateway.close()
        await self._ledger.__aexit__()
        for one in (left := self._others()):
            one.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    def _others(self) -> list[asyncio.Task[Any]]:
        return [one for one in asyncio.all_tasks() - self._own if one is not asyncio.current_task()]

    async def _finish(self) -> None:
        self._stop.set()
        await self._serving
        self._listener.close()

    def _end(self) -> None:
        self._call(self._finish())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CALL_S)
        self._loop.close()
        shutil.rmtree(self._folder, ignore_errors=True)


@cache
def gateway_thread() -> GatewayThread:
    """Return the one of this process."""
    return GatewayThread()
