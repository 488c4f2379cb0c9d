"""Searches of the index of requests that an indexer keeps beside the gateway."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Final

from ledger import Ledger
from ledger.client.why import PastRequests
from ledger.core.errors import InputError, SetupError
from ledger.log.viewed import ViewLag
from ledger.session.state import SessionState
from ledger.stores.port import StreamKey
from ledger.stores.store import Store
from projections.lag import FedLag, StreamWalk
from workers.gateway.descriptions import Row
from workers.gateway.principals import Principal
from workers.indexer.reader import (
    FoundPage,
    FoundRequest,
    IndexReader,
    SearchQuery,
    asked_in_index,
    deployment_of,
    lag_of,
)
from workers.indexer.schema import FactKind, NoIndexError, default_file
from workers.projector import CatchingUp

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
        while await self._walk.is_due():
            await self._walk.step(begin=False)

    async def _in_time(self, work: Coroutine[Any, Any, object]) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(CATCH_UP_SECONDS):
                await work


log = logging.getLogger(__name__)

SCOPE_COUNT: Final = 8
"""Projects or sessions of a bound token that are looked up; with more, matches are filtered one by one."""

AT_ONCE_COUNT: Final = 2
"""Searches in progress; others wait, so that none takes the threads of the rest of the gateway."""


class RequestSearch:
    """The searches of one gateway. The file is opened for each, so that one that was built anew is found."""

    def __init__(self, store: Store, file: Path | None) -> None:
        self._store = store
        self._file = file
        self._turns = asyncio.Semaphore(AT_ONCE_COUNT)

    async def find(self, principal: Principal, query: SearchQuery, limit: int) -> Row:
        """Return one page of requests within the caller's reach, and the lag. Raises NoIndexError, StoreError."""
        ours = await deployment_of(self._store)
        async with self._turns:
            with closing(await asyncio.to_thread(self._open, ours)) as index:
                page = await asyncio.to_thread(_search, index, principal, query, limit)
                lag = await lag_of(self._store, index)
        return {
            "requests": [one.as_json() for one in page.found],
            "cursor": page.cursor,
            "lag": {"sessions": lag.sessions, "events": lag.events, "whole": lag.whole},
        }

    async def asked_before(
        self, principal: Principal, state: SessionState, *, since_ms: int, count: int
    ) -> PastRequests | None:
        """Return past requests of a session's project within the caller's reach; None without a whole index. Raises StoreError."""
        ours = await deployment_of(self._store)
        async with self._turns:
            try:
                with closing(await asyncio.to_thread(self._open, ours)) as index:
                    if not index.is_whole:
                        return None
                    return await asyncio.to_thread(
                        asked_in_index, index, state, since_ms=since_ms, count=count, may_see=principal.reaches
                    )
            except SetupError as error:
                log.debug("past requests are read from the log: %s", error)
                return None

    def _open(self, deployment: str) -> IndexReader:
        """Open the index; callers are not told where it lies."""
        try:
            index = IndexReader(self._file or default_file(deployment))
        except (NoIndexError, InputError) as error:
            log.debug("no search: %s", error)
            raise _no_index() from error
        if index.deployment != deployment:
            index.close()
            raise _no_index()
        return index


def _no_index() -> NoIndexError:
    return NoIndexError("this gateway has no index of requests: start `permission-ledger worker indexer` beside it")


def _search(index: IndexReader, principal: Principal, query: SearchQuery, limit: int) -> FoundPage:
    def may_see(one: FoundRequest) -> bool:
        return principal.reaches(one.request.session, one.project, one.token_id)

    return index.search(query, limit, may_see=may_see, scope=_scope(principal))


def _scope(principal: Principal) -> tuple[tuple[FactKind, str], ...]:
    """Return facts of which one holds for all that is within reach; none where too many would have to be looked up."""
    if principal.sessions:
        facts: list[tuple[FactKind, str]] = [("session", one) for one in principal.sessions]
    else:
        # A session without a project is its own project.
        kinds: tuple[FactKind, ...] = ("project", "session")
        facts = [(kind, one) for one in principal.projects for kind in kinds]
    return tuple(facts) if len(facts) <= 2 * SCOPE_COUNT else ()
