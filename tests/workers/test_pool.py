"""Processes for work: whatever ends one of them, its work has an error, and none is left."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import BrokenExecutor
from pathlib import Path

import pytest

from tests.support.waiting import wait_until
from tests.workers import pieces
from workers.runtime.pool import Processes


@pytest.fixture
def one() -> Iterator[Processes]:
    one = Processes(1, pieces.nothing)
    yield one
    one.kill(waits=True)


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def begun(file: Path) -> int:
    return int(wait_until(lambda: file.exists() and file.read_text(), "the piece to begin", 60))


def test_an_error_of_a_piece_is_its_result(one: Processes) -> None:
    before = one.submit(pieces.pid).result()
    with pytest.raises(ValueError, match="too long"):
        one.submit(pieces.refused, "too long").result()
    assert one.submit(pieces.pid).result() == before


def test_after_the_end_no_process_is_left_or_started(tmp_path: Path) -> None:
    two = Processes(2, pieces.nothing)
    files = [tmp_path / name for name in ("1", "2", "3", "4", "5", "6")]
    running = [two.submit(pieces.endless, str(file)) for file in files]
    pids = [begun(file) for file in files[:2]]
    two.kill(waits=True)
    assert all(is_gone(pid) for pid in pids)
    assert {type(one.exception()).__mro__[1] for one in running} == {BrokenExecutor}
    assert not files[-1].exists()


def test_a_piece_that_is_killed_while_it_is_sent_leaves_nothing_behind(one: Processes) -> None:
    sending = one.submit(pieces.same, "x" * 50_000_000)
    one.kill(waits=True)
    with pytest.raises(BrokenExecutor):
        sending.result()


def test_a_process_imports_nothing_from_the_folder_it_stands_in(
    one: Processes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "multiprocessing.py").write_text("raise SystemExit('imported')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    assert one.submit(pieces.same, "done").result() == "done"
    assert not os.environ["PYTHONSAFEPATH"]
