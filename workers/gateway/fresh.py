"""Views brought up to date before they are read, for ledgers without a projector.

Any number of processes may update views, so a gateway can do it beside a projector. The time is bounded: with a
projector there is nothing left to do, and without one an old ledger must not delay a page.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, Final

from ledger import Ledger
from ledger.stores.port import StreamKey
from projections.lag import events_behind, streams_behind
from workers.projector.worker import CatchingUp

log = logging.getLogger(__name__)

LOOK_EVERY_SECONDS: Final = 1.0
"""Interval between two full updates; finding all lag reads the head of every stream."""

CATCH_UP_SECONDS: Final = 2.0
"""Time limit of an update; after it the answer shows the views as they are."""


class FreshViews:
    """Updates views before they are read. Raises StoreError."""

    def __init__(self, ledger: Ledger) -> None:
        self._store = ledger.store
        self._catching_up = CatchingUp(ledger)
        self._looking = asyncio.Lock()
        self._looked_at = float("-inf")

    async def of_session(self, session: str) -> None:
        """Update the views of one session."""
        key = StreamKey("session", session)
        if await events_behind(self._store, [key]):
            await self._in_time(self._catching_up.catch_up_all([key]))

    async def of_everything(self) -> None:
        """Update all views, unless this process did so less than `LOOK_EVERY_SECONDS` ago."""
        async with self._looking:
            now = asyncio.get_running_loop().time()
            if now - self._looked_at < LOOK_EVERY_SECONDS:
                return
            self._looked_at = now
            await self._in_time(self._everything())

    async def _everything(self) -> None:
        async for keys in streams_behind(self._store):
            await self._catching_up.catch_up_all(keys)

    async def _in_time(self, work: Coroutine[Any, Any, object]) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(CATCH_UP_SECONDS):
                await work
