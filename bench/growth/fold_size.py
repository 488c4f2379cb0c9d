"""The memory of one session's fold: `python -m bench.growth.fold_size URL SESSION` prints its bytes."""

from __future__ import annotations

import asyncio
import gc
import sys
import tracemalloc

from ledger import Ledger
from ledger.log.tail import fold_entries, nothing_folded, read_pages
from ledger.stores.port import StreamKey


async def main(url: str, session_id: str) -> None:
    async with Ledger.connect(url, entry_points=False) as ledger:
        key = StreamKey("session", session_id)
        folded = nothing_folded(key)
        tracemalloc.start()
        gc.collect()
        before, _ = tracemalloc.get_traced_memory()
        async for page in read_pages(ledger.store, key):
            folded = fold_entries(key, folded, page)
        del page
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
        assert folded.state.settled, "nothing was settled"
        print(after - before, flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
