"""The connection of a process to the store of its ledger, with the embedded server that it may hold."""

from __future__ import annotations

import logging
from collections.abc import Callable

from ledger.core.errors import StoreError
from ledger.stores.embedded import EmbeddedServer, embedded_server
from ledger.stores.port import Store
from ledger.stores.urls import embedded_folder

log = logging.getLogger(__name__)


class StoreConnection:
    """The store at a URL. `open_store` makes it from a server's URL and a callback that restarts the server."""

    def __init__(self, url: str, open_store: Callable[..., Store]) -> None:
        self.url = url
        self._open_store = open_store
        self._store: Store | None = None
        self._server: EmbeddedServer | None = None

    async def open(self) -> Store:
        """Start the store; an embedded server is started first. Raises StoreError, SetupError, InputError."""
        if self.url.startswith("embedded://"):
            server = embedded_server(embedded_folder(self.url))
            await server.__aenter__()
            self._server, self.url = server, server.url  # one that did not start is not closed
        self._store = self._open_store(self.url, revive=None if self._server is None else self._revive)
        await self._store.start()
        return self._store

    async def close(self) -> None:
        if self._store is not None:
            await self._store.close()
        if self._server is not None:
            await self._server.__aexit__(None, None, None)
            self._server = None

    async def _revive(self) -> None:
        """Restart the embedded server, of which this process holds the folder, after it died."""
        try:
            if self._server is not None:
                await self._server.revive()
        except StoreError as error:
            log.warning("the embedded server could not be started again: %s", error)
