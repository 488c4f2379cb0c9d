"""Processes for pieces of work: whatever ends one of them, each piece has its own result or an error, and none is left."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.waiting import wait_until, wait_until_async
from tests.workers import pieces
from workers.runtime.pool import AHEAD_COUNT, EndedError, ProcessPool


@pytest.fixture
def one() -> Iterator[ProcessPool]:
    pool = ProcessPool(1, pieces.nothing)
    yield pool
    pool.close()


@pytest.fixture
def two() -> Iterator[ProcessPool]:
    pool = ProcessPool(2, pieces.nothing)
    yield pool
    pool.close()


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


async def begun(file: Path) -> int:
    return int(await wait_until_async(lambda: file.exists() and file.read_text(), "the piece to begin", 60))


async def test_results_come_in_the_order_of_the_portions_and_only_so_many_are_ahead(two: ProcessPool) -> None:
    given, found, portions = 0, list[int](), list(range(12))
    run = two.run

    async def counted(*arguments: Any, **options: Any) -> Any:
        nonlocal given
        given += 1
        assert given - len(found) <= 2 * AHEAD_COUNT
        return await run(*arguments, **options)

    async def take(portion: int) -> None:
        await wait_until_async(lambda: given == min(12, len(found) + 2 * AHEAD_COUNT), "portions to be given")
        found.append(portion)

    two.run = counted  # type: ignore[method-assign]
    await two.share(pieces.same, portions, take)
    assert found == portions


async def test_an_error_of_a_piece_is_its_result(one: ProcessPool) -> None:
    before = await one.run(pieces.pid)
    with pytest.raises(ValueError, match="too long"):
        await one.run(pieces.refused, "too long")
    with pytest.raises(ExceptionGroup) as caught:
        await one.share(pieces.refused, ["too long"], lambda _: None)
    assert caught.group_contains(ValueError)
    assert await one.run(pieces.pid) == before


async def test_a_piece_whose_process_is_killed_is_ended_and_no_other(two: ProcessPool, tmp_path: Path) -> None:
    long = asyncio.create_task(two.run(pieces.endless, str(tmp_path / "begun")))
    await begun(tmp_path / "begun")
    with pytest.raises(EndedError):
        await two.run(pieces.die)
    assert await two.run(pieces.same, "next") == "next"
    assert not long.done()
    two.close()
    with pytest.raises(EndedError):
        await long


async def test_a_process_that_is_killed_while_it_rests_is_replaced(one: ProcessPool) -> None:
    first = await one.run(pieces.pid)
    os.kill(first, signal.SIGKILL)
    await wait_until_async(lambda: is_gone(first), "the process to be gone")
    assert await one.run(pieces.pid) != first


async def test_a_piece_beyond_its_time_is_killed(one: ProcessPool, tmp_path: Path) -> None:
    await one.run(pieces.pid)
    with pytest.raises(EndedError):
        await one.run(pieces.endless, str(tmp_path / "begun"), seconds=0.5)
    pid = await begun(tmp_path / "begun")
    await wait_until_async(lambda: is_gone(pid), "the process to be gone")
    assert await one.run(pieces.same, "next") == "next"


async def test_the_piece_of_a_caller_that_is_cancelled_is_killed(one: ProcessPool, tmp_path: Path) -> None:
    calling = asyncio.create_task(one.run(pieces.endless, str(tmp_path / "begun")))
    pid = await begun(tmp_path / "begun")
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    await wait_until_async(lambda: is_gone(pid), "the process to be gone")
    assert await one.run(pieces.same, "next") == "next"


async def test_after_the_end_no_process_is_left_or_started(two: ProcessPool, tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("1", "2")]
    running = [asyncio.create_task(two.run(pieces.endless, str(file))) for file in files]
    pids = [await begun(file) for file in files]
    waiting = asyncio.create_task(two.run(pieces.endless, str(tmp_path / "3")))
    two.close()
    assert all(is_gone(pid) for pid in pids)
    found = await asyncio.gather(*running, waiting, return_exceptions=True)
    assert {type(one) for one in found} == {EndedError}
    assert not (tmp_path / "3").exists()


async def test_a_piece_that_is_killed_while_it_is_sent_leaves_nothing_behind(one: ProcessPool) -> None:
    sending = asyncio.create_task(one.run(pieces.same, "x" * 50_000_000))
    await wait_until_async(lambda: one.is_busy, "the process to be taken")
    one.close()
    with pytest.raises(EndedError):
        await sending


def test_nobody_waits_for_a_process_that_never_began() -> None:
    pool = ProcessPool(2, pieces.nothing)
    pool.close()
    wait_until(lambda: not pool.is_busy, "no process")
