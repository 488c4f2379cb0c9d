"""The presence of an asker that waits over HTTP, renewed as long as its connection is open."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

from ledger.core.errors import StoreError
from ledger.log.askers import RENEW_SECONDS, forget_asker, see_asker
from ledger.stores.port import Store

log = logging.getLogger(__name__)

Receive = Callable[[], Awaitable[Mapping[str, Any]]]
"""The `receive` of ASGI: after the body, it returns when the connection is closed."""


class Attending:
    """One asker's connection. `has_left` says that it was closed while the asker waited."""

    def __init__(self, store: Store, receive: Receive) -> None:
        self.has_left = False
        self._store = store
        self._receive = receive

    @asynccontextmanager
    async def to(self, session: str, request_id: str) -> AsyncIterator[None]:
        """Record that the asker of a request is present, until the block ends or its connection closes."""
        seeing = asyncio.create_task(self._see(session, request_id))
        try:
            yield
        finally:
            seeing.cancel()
            with suppress(asyncio.CancelledError):
                await seeing

    async def settled(self, session: str, request_id: str) -> None:
        """Forget the asker, because it has its answer."""
        with suppress(StoreError):
            await forget_asker(self._store, session, request_id)

    async def _see(self, session: str, request_id: str) -> None:
        leaving = asyncio.create_task(self._left())
        try:
            while not leaving.done():
                await see_asker(self._store, session, request_id)
                await asyncio.wait((leaving,), timeout=RENEW_SECONDS)
        except StoreError as error:
            # Only a hint: the inbox may show that the asker is gone, and no answer depends on it.
            log.warning("who waits for `%s` cannot be recorded: %s", request_id, error.text)
        finally:
            leaving.cancel()

    async def _left(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self.has_left = True
