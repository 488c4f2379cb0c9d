"""The connection of a process to the store of its ledger, with the embedded server that it may hold, and its masks."""

from __future__ import annotations

import logging
import os
import secrets
from collections.abc import Callable
from typing import Final

from ledger.core.errors import InputError, StoreError
from ledger.masks.masking import Masks
from ledger.stores.embedded import EmbeddedServer, embedded_server
from ledger.stores.secrets import deployment_secret
from ledger.stores.store import Store
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


VARIABLE: Final = "PERMISSION_LEDGER_MASKS"
"""`on`, the default, or `off`: whether secrets are masked before anything is written."""

_WORDS: Final = {"": True, "on": True, "off": False}
_KEY_BYTES: Final = 32


def masks_are_on(wanted: bool | None) -> bool:
    """Return the setting: as given, else that of the environment. Raises InputError for another word there."""
    if wanted is not None:
        return wanted
    word = os.environ.get(VARIABLE, "").strip().lower()
    if word not in _WORDS:
        raise InputError(f"{VARIABLE} is `{word}`; it must be `on` or `off`")
    return _WORDS[word]


async def masks_of(store: Store) -> Masks:
    """Return the masks with the key of the deployment.

    A server that has no key and takes no writes gets none: the masks of this process then differ from all others.
    """
    try:
        key = await deployment_secret(store)
    except StoreError as error:
        log.warning("secrets are masked with a key of this process alone: %s", error)
        key = secrets.token_bytes(_KEY_BYTES)
    return Masks(key)
