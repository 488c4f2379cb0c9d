"""Views that are as fresh as the log where no projector keeps them so: what is read here is brought up first.

Any number of processes may bring views up, so a gateway does it beside a projector without harm. It is bounded in
time: with a projector there is nothing left to do, and without one an old ledger must not make a page wait.
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
"""Finding all that is behind looks at every stream."""

CATCH_UP_SECONDS: Final = 2.0
"""What takes longer is a projector's work; the answer is then as of what the views have."""


class FreshViews:
    """Bring views up before they are read. Raises StoreError."""

    def __init__(self, ledger: Ledger) -> None:
        self._store = ledger.store
        self._catching_up = CatchingUp(ledger)
        self._looking = asyncio.Lock()
        self._looked_at = float("-inf")

    async def of_session(self, session: str) -> None:
        """The views of one session."""
        key = StreamKey("session", session)
        if await events_behind(self._store, [key]):
            await self._in_time(self._catching_up.catch_up_all([key]))

    async def of_everything(self) -> None:
        """All views, unless somebody here looked a moment ago."""
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
