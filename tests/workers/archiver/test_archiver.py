"""The archiver: seals what may be sealed at each round, one archiver at a time, and goes on after an error."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from ledger import Ledger
from ledger.core.events import Presence
from ledger.log.archive.archive import archive_of
from ledger.log.archive.sealing import SealRule
from ledger.stores.port import StreamKey, WorkPlace
from tests.support.store_calls import seals
from tests.support.waiting import pause, wait_until_async
from workers.archiver import TURN, TURN_MS, Archiver, ArchiverPace

ONE, TWO = StreamKey("session", "ses_1"), StreamKey("session", "ses_2")


@pytest.fixture
async def ledger(tmp_path: Path) -> AsyncIterator[Ledger]:
    async with Ledger.connect(f"memory://{tmp_path.name}", entry_points=False) as ledger:
        await archive_of(ledger.store).set_url(str(tmp_path / "archive"))
        yield ledger


async def closed(ledger: Ledger, name: str) -> None:
    session = await ledger.session(name)
    await session.close()


async def is_sealed(ledger: Ledger, key: StreamKey) -> bool:
    return (await seals(ledger.store, [key]))[0] is not None


@asynccontextmanager
async def archiving(ledger: Ledger, every_seconds: float = 0.05) -> AsyncIterator[None]:
    stop = asyncio.Event()
    worker = asyncio.create_task(Archiver(ledger, SealRule(), ArchiverPace(every_seconds=every_seconds)).run(stop))
    try:
        yield
    finally:
        stop.set()
        await worker


async def test_closed_sessions_are_sealed_at_each_round_and_open_ones_stay(ledger: Ledger) -> None:
    await closed(ledger, "ses_1")
    await ledger.session("ses_open")
    async with archiving(ledger):
        await wait_until_async(lambda: is_sealed(ledger, ONE), "the first session to be sealed")
        await closed(ledger, "ses_2")
        await wait_until_async(lambda: is_sealed(ledger, TWO), "the second session to be sealed")
        assert not await is_sealed(ledger, StreamKey("session", "ses_open"))
    assert (await ledger.state_at("ses_1")).state.closed_ms is not None


async def test_an_archiver_without_the_turn_seals_nothing_until_it_has_it(ledger: Ledger) -> None:
    await closed(ledger, "ses_1")
    assert await ledger.store.lease(WorkPlace(TURN), Presence("another", ""), TURN_MS, alone=True)
    seen = asyncio.Event()
    lease = ledger.store.lease

    async def noted(*given: Any, **named: Any) -> bool:
        has_it = await lease(*given, **named)
        seen.set()
        return has_it

    ledger.store.lease = noted  # type: ignore[method-assign]
    async with archiving(ledger):
        await seen.wait()
        assert not await is_sealed(ledger, ONE)
        await ledger.store.lease(WorkPlace(TURN), Presence("another", ""), 0)
        await wait_until_async(lambda: is_sealed(ledger, ONE), "the session to be sealed")


async def test_an_archiver_goes_on_after_a_round_that_failed(
    ledger: Ledger, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await closed(ledger, "ses_1")
    (tmp_path / "archive").write_text("a file in the place of the folder")
    with caplog.at_level(logging.WARNING, "workers.archiver"):
        async with archiving(ledger):
            await wait_until_async(lambda: "the round ended early" in caplog.text, "the failure to be told")
            assert not await is_sealed(ledger, ONE)
            (tmp_path / "archive").unlink()
            await wait_until_async(lambda: is_sealed(ledger, ONE), "the session to be sealed")


async def test_an_archiver_stopped_within_a_round_ends_it_and_gives_the_turn_back(ledger: Ledger) -> None:
    await closed(ledger, "ses_1")
    stop, seal = asyncio.Event(), ledger.store.seal

    async def stopped(*given: Any) -> bool:
        stop.set()
        # The worker has every chance to leave before this step.
        for _ in range(20):
            await pause()
        return await seal(*given)

    ledger.store.seal = stopped  # type: ignore[method-assign, assignment]
    await Archiver(ledger, SealRule(), ArchiverPace(every_seconds=3600)).run(stop)
    assert await is_sealed(ledger, ONE)
    assert await ledger.store.lease(WorkPlace(TURN), Presence("another", ""), TURN_MS, alone=True)
