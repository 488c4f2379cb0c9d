"""Indexers as processes, killed in the middle of their work."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from ledger import Ledger, SetupError
from tests.projections.looking import RULES
from tests.support.backends import PARTITION_COUNT
from tests.support.indexing import index, search
from tests.support.processes import python
from tests.support.servers import RealServer
from tests.support.waiting import wait_until_async
from workers.indexer.reader import IndexReader

SESSIONS = 60
KILLS = 3

INDEXER = """
import asyncio, sys
from pathlib import Path
from ledger import Ledger
from workers.indexer import worker

worker.STEP_EVENTS = 2
worker.SHORT_COUNT = 2
worker.SESSIONS_AT_ONCE_COUNT = 3

async def main():
    async with Ledger.connect(sys.argv[1], entry_points=False) as ledger:
        await worker.run(ledger, asyncio.Event(), Path(sys.argv[2]))

asyncio.run(main())
"""


@pytest.fixture
async def ledger(server: RealServer) -> AsyncIterator[Ledger]:
    async with Ledger.connect(server.url, partitions=PARTITION_COUNT, entry_points=False) as ledger:
        yield ledger


async def test_a_killed_indexer_loses_nothing_and_doubles_nothing(
    ledger: Ledger, server: RealServer, tmp_path: Path
) -> None:
    for number in range(SESSIONS):
        session = await ledger.session(f"ses_{number}", rules=RULES, project="shop")
        await session.submit("bash", [f"make part{number}"], request_id=f"per_{number}")
        await session.reply(f"per_{number}", "once", actor="ann")
        await session.submit("read", [f"part{number}"], request_id=f"read_{number}")
    file, whole = tmp_path / "killed.sqlite", tmp_path / "whole.sqlite"
    for _ in range(KILLS):
        before = rows_in(file)
        with python(INDEXER, server.url, file) as process:
            await wait_until_async(partial(has_more_rows, file, before), "a transaction more")
            process.send_signal(signal.SIGKILL)
    await index(ledger, file)
    await index(ledger, whole)
    assert search(file) == search(whole)
    assert len(search(file)) == 2 * SESSIONS
    assert search(file, "by:ann") == search(whole, "by:ann")
    assert len(search(file, "by:ann")) == SESSIONS


def has_more_rows(file: Path, than: int) -> bool:
    return rows_in(file) > than


def rows_in(file: Path) -> int:
    try:
        with closing(IndexReader(file)):
            return len(search(file))
    except SetupError:
        return 0


@pytest.mark.slow
async def test_indexers_killed_while_people_answer_leave_every_answer_to_the_next(
    ledger: Ledger, server: RealServer, tmp_path: Path
) -> None:
    file, count = tmp_path / "killed.sqlite", 0
    for _ in range(KILLS):
        before = rows_in(file)
        with python(INDEXER, server.url, file) as process:
            # One more than it had: it is killed between the events of a request, or before it has them all.
            while not has_more_rows(file, before):
                session = await ledger.session(f"ses_{count}", rules=RULES, project="shop")
                await session.submit("bash", [f"make part{count}"], request_id=f"per_{count}")
                await session.reply(f"per_{count}", "once" if count % 2 else "reject", actor="ann")
                count += 1
            process.send_signal(signal.SIGKILL)
    await index(ledger, file)
    ended = {row["request_id"]: row["outcome"] for row in search(file, "by:ann")}
    assert ended == {f"per_{number}": "allowed" if number % 2 else "rejected" for number in range(count)}
