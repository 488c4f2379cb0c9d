"""An indexer for tests that has come to everything when it returns, and searches of its file."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

from ledger import Ledger
from tests.support.waiting import wait_until_async
from workers.indexer.reader import IndexReader, lag_of, parse_query
from workers.indexer.worker import IndexPace, run

NOW_MS = 10**13
ROWS_COUNT = 1000


@asynccontextmanager
async def indexing(ledger: Ledger, file: Path, pace: IndexPace | None = None) -> AsyncIterator[None]:
    """Run an indexer during the block, once it has opened its file."""
    stop, ready = asyncio.Event(), asyncio.Event()
    worker = asyncio.create_task(run(ledger, stop, file, pace, ready.set), name="indexer")
    began = asyncio.create_task(ready.wait(), name="indexer is ready")
    try:
        await asyncio.wait((worker, began), return_when=asyncio.FIRST_COMPLETED)
        if worker.done():
            await worker
        yield
    finally:
        began.cancel()
        stop.set()
        if not worker.done():
            await worker


async def index(ledger: Ledger, file: Path) -> None:
    """Run an indexer until its file is whole, has all that the log has, and owes no removal of text."""
    async with indexing(ledger, file):
        await caught_up(ledger, file)


async def caught_up(ledger: Ledger, file: Path) -> None:
    async def is_up() -> bool:
        with closing(IndexReader(file)) as reader:
            return await lag_of(ledger.store, reader) == (0, 0, True) and not reader.must_remove

    await wait_until_async(is_up, "the index has all that the log has")


def search(file: Path, text: str = "", **conditions: str) -> list[dict[str, Any]]:
    """Return the requests that match, as JSON rows."""
    with closing(IndexReader(file)) as reader:
        page = reader.search(parse_query(text, conditions, now_ms=NOW_MS), ROWS_COUNT)
    return [one.as_json() for one in page.found]


def ids(file: Path, text: str = "", **conditions: str) -> list[str]:
    """Return the ids of the requests that match, the newest first."""
    return [row["request_id"] for row in search(file, text, **conditions)]
