"""Reads of many streams in few round trips: most streams are short, and a round trip costs more than their entries."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from typing import Final

from ledger.core.errors import StoreError
from ledger.core.limits import PAGE_COUNT
from ledger.stores.port import Store, StreamKey
from ledger.stores.values import ShortStream

READ_AT_ONCE_COUNT: Final = 32
SHORT_COUNT: Final = PAGE_COUNT // READ_AT_ONCE_COUNT
"""A stream of fewer entries is short, so that one read has at most as many entries as one page of a long stream."""


async def read_short_streams(
    store: Store, keys: Sequence[StreamKey]
) -> AsyncIterator[tuple[StreamKey, ShortStream | None]]:
    """Iterate over streams in order, each with its content; None for one that is to be read page by page.

    While some are handled, the next ones are read. Raises StoreError.
    """
    portions = [keys[start : start + READ_AT_ONCE_COUNT] for start in range(0, len(keys), READ_AT_ONCE_COUNT)]
    reading: asyncio.Task[list[ShortStream | None]] | None = None
    try:
        for index, portion in enumerate(portions):
            found = await (reading or _begin(store, portion))
            reading = _begin(store, portions[index + 1]) if index + 1 < len(portions) else None
            # One turn of the loop sends the next read: the server works on it meanwhile.
            await asyncio.sleep(0)
            for key, short in zip(portion, found, strict=True):
                yield key, short
    finally:
        if reading is not None:
            reading.cancel()
            with suppress(asyncio.CancelledError, StoreError):
                await reading


def _begin(store: Store, keys: Sequence[StreamKey]) -> asyncio.Task[list[ShortStream | None]]:
    return asyncio.create_task(store.short_streams(keys, SHORT_COUNT), name="ledger read of short streams")
