"""Indexes of requests after a soak: each holds every request of the log once, and no redacted text."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Final

from bench.soak.day import word_of
from bench.soak.leftovers import came
from bench.soak.telling import Asked, Request
from ledger import Ledger
from workers.indexer.reader import IndexReader, lag_of, parse_query

UP_TO_DATE: Final = (0, 0, True)
_ROWS: Final = "SELECT session, request_id, outcome FROM requests"


async def until_indexed(ledger: Ledger, files: Sequence[Path], seconds: float) -> list[str]:
    """Wait until running indexers have read the whole log; return the files that lag after so long, in words."""
    late = [file for file in files if not await came(partial(_is_up, ledger, file), seconds)]
    return [f"an index lags after {seconds:.0f} s: {file.name}" for file in late]


async def _is_up(ledger: Ledger, file: Path) -> bool:
    with closing(IndexReader(file)) as reader:
        return await lag_of(ledger.store, reader) == UP_TO_DATE and not reader.must_remove


def wrong_in(file: Path, outcomes: Mapping[Request, set[str]], redacted: Sequence[Asked]) -> list[str]:
    """Return what an index says otherwise than the log, in words; `outcomes` are those of the log."""
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as opened:
        rows = {(session, request): outcome for session, request, outcome in opened.execute(_ROWS)}
    other = [one for one, outcome in rows.items() if outcome not in outcomes.get(one, set())]
    with closing(IndexReader(file)) as reader:
        found = [one for one in redacted if reader.search(parse_query(word_of(one.request_id), now_ms=0), 1).found]
    problems = {
        "requests are missing": sorted(set(outcomes) - set(rows)),
        "requests ended otherwise": sorted(other),
        "redacted requests are found": [(one.session, one.request_id) for one in found],
    }
    return [f"{file.name}: {len(some)} {what}, like {some[0]}" for what, some in problems.items() if some]
