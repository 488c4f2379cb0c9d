"""Completions of ids on a shell's command line: what is pending, newest sessions, grants in force.

A completion fails silently: it starts no server, waits at most 3 s, and writes nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Final, TypeVar

from ledger import Ledger, LedgerError
from ledger.log.surveys import ListPage
from ledger.stores.embedded import is_running
from ledger.stores.urls import default_home, embedded_folder, url_of_environment
from projections.session_list import SessionList

WAIT_S: Final = 3.0
LOOKED_AT_COUNT: Final = 1000
SHOWN_COUNT: Final = 100

T = TypeVar("T")

Ids = AsyncIterator[tuple[str, str]]


async def _ids(pages: AsyncIterator[ListPage[T]], shown: Callable[[T], tuple[str, str]]) -> Ids:
    async for page in pages:
        for one in page.items:
            yield shown(one)


SOURCES: Final[dict[str, Callable[[Ledger], Ids]]] = {
    # Nearest deadline first, newest event first, and in force.
    "requests": lambda ledger: _ids(
        ledger.pending_pages(None, LOOKED_AT_COUNT),
        lambda one: (one.request.request_id, f"{one.request.permission} in {one.session}"),
    ),
    "sessions": lambda ledger: _ids(
        SessionList(ledger.store, ledger.streams).pages(None, LOOKED_AT_COUNT),
        lambda row: (str(row["session"]), str(row["project"] or "")),
    ),
    "grants": lambda ledger: _ids(
        ledger.approved_pages(None, LOOKED_AT_COUNT),
        lambda one: (str(one.as_json()["grant_id"]), f"{one.as_json()['permission']} {one.as_json()['pattern']}"),
    ),
}
"""Ids with what is shown beside them."""


def completed(source: str, incomplete: str, url: str | None) -> list[tuple[str, str]]:
    """Return ids that begin so, with a line of help each; none where the ledger cannot be read at once."""
    before = logging.root.manager.disable
    logging.disable()
    try:
        with suppress(LedgerError, OSError, TimeoutError):
            return asyncio.run(_completed(source, incomplete, url))
    finally:
        logging.disable(before)
    return []


async def _completed(source: str, incomplete: str, url: str | None) -> list[tuple[str, str]]:
    if not _is_up(url):
        return []
    found: list[tuple[str, str]] = []
    async with asyncio.timeout(WAIT_S), Ledger.connect(url, entry_points=False) as ledger:
        looked_at = 0
        async for name, text in SOURCES[source](ledger):
            looked_at += 1
            if name.startswith(incomplete):
                found.append((name, text))
            if len(found) == SHOWN_COUNT or looked_at == LOOKED_AT_COUNT:
                break
    return found


def _is_up(url: str | None) -> bool:
    """Return whether the URL can be read without starting a server."""
    named = url or url_of_environment()
    if named is None:
        return is_running(default_home())
    return is_running(embedded_folder(named)) if named.startswith("embedded:") else True
