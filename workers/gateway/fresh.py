"""Views brought up to date before they are read, for ledgers without a projector.

Any number of processes may update views, so a gateway can do it beside a projector. What lags is told by the feeds, so
with a projector there is next to nothing to do. The time is bounded: without one, an old ledger must not delay a page.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, Final

from ledger import Ledger
from ledger.log.viewed import ViewLag
from ledger.stores.port import StreamKey
from projections.lag import FedLag, StreamWalk
from workers.projector import CatchingUp

log = logging.getLogger(__name__)

LOOK_EVERY_SECONDS: Final = 1.0
"""Interval between two full updates."""

CATCH_UP_SECONDS: Final = 2.0
"""Time limit of an update; after it the answer shows the views as they are."""


class FreshViews:
    """Updates views before they are read. Raises StoreError."""

    def __init__(self, ledger: Ledger) -> None:
        self._catching_up = CatchingUp(ledger)
        self._fed = FedLag(ledger.store)
        self._walk = StreamWalk(ledger.store, self._catching_up.catch_up_all)
        self._looking = asyncio.Lock()
        self._looked_at = float("-inf")
        self.lag_events = 0
        """The events that the views did not have when they were last updated, as far as the feeds tell."""

    async def of_everything(self) -> None:
        """Update all views, unless this process did so less than `LOOK_EVERY_SECONDS` ago."""
        async with self._looking:
            now = asyncio.get_running_loop().time()
            if now - self._looked_at < LOOK_EVERY_SECONDS:
                return
            self._looked_at = now
            await self._in_time(self._everything())

    async def _everything(self) -> None:
        found: dict[StreamKey, ViewLag] = {}
        try:
            async for page in self._fed.pages():
                found |= page
                await self._catching_up.catch_up_all(page)
        finally:
            self.lag_events = sum(one.events for one in found.values())
        if self._fed.trimmed:
            await self._walk.want(sorted(self._fed.trimmed))
            self._fed.trimmed.clear()
        while await self._walk.owes():
            await self._walk.step(begin=False)

    async def _in_time(self, work: Coroutine[Any, Any, object]) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(CATCH_UP_SECONDS):
                await work
