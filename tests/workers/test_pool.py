"""Processes for work: whatever ends one of them, its work has an error, and none is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import BrokenExecutor
from pathlib import Path
from typing import Final

import pytest

from tests.support.processes import ROOT
from tests.support.waiting import wait_until
from tests.workers import pieces
from workers.runtime.children import Processes


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


KILLED: Final = """
import os, signal
from tests.workers import pieces
from workers.runtime.children import Processes

if __name__ == "__main__":
    assert Processes(1, pieces.nothing).submit(pieces.same, "done").result() == "done"
    assert not {"PYTHONSAFEPATH", "PYTHONWARNINGS"} & set(os.environ)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_no_process_imports_from_the_folder_it_stands_in_or_complains_of_a_killed_parent(tmp_path: Path) -> None:
    """Python starts one more process, which tidies up: a program of its own shows what that one does."""
    (tmp_path / "program").mkdir()
    program, marker = tmp_path / "program" / "program.py", tmp_path / "imported"
    program.write_text(KILLED)
    (tmp_path / "multiprocessing.py").write_text(f"open({str(marker)!r}, 'w').close()\nraise SystemExit")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    environment["PYTHONPATH"] = str(ROOT)
    done = subprocess.run(
        [sys.executable, program],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stderr, marker.exists()) == (-signal.SIGKILL, "", False)
