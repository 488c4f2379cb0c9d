"""Work of a command that processes share: their errors and warnings are the command's, and they end with it."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ledger import Ledger
from ledger.core.errors import InputError, StoreError
from tests.support.command_line import CommandLine, ended
from tests.support.servers import RealServer
from tests.support.waiting import wait_until
from tests.workers import pieces
from workers.runtime.children import Processes
from workers.upkeep.works import AHEAD_COUNT, STREAMS_OF_A_PROCESS_COUNT, processes_for, results_of

VERIFY_WITHOUT_END = """
import sys
from tests.workers.pieces import waits
from workers.cli import cli, verify
from workers.cli.lazy import run_program
from workers.upkeep import works

works.CHECKED_AT_ONCE_COUNT = 1
verify.check_streams = waits
sys.argv[1:] = ["verify", "--all", "--jobs", "2"]
sys.exit(run_program(cli))
"""


async def all_done(url: str, work: Any, *, portions: int = 3) -> list[Any]:
    async with Ledger.connect(url, entry_points=False) as ledger:
        return [one async for one in results_of(work, ledger, range(portions), 2)]


async def test_a_process_that_is_killed_ends_the_command_with_an_error(server: RealServer) -> None:
    with pytest.raises(StoreError, match="run the command again"):
        await all_done(server.url, pieces.dies)


async def test_an_error_of_a_process_is_that_of_the_command() -> None:
    class Elsewhere:
        server_url = "nonsense://"

    ledger: Any = Elsewhere()
    with pytest.raises(InputError):
        _ = [one async for one in results_of(pieces.warns, ledger, [1, 2], 2)]


async def test_results_come_in_the_order_of_the_portions_and_only_so_many_are_ahead(
    server: RealServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    given, submit = 0, Processes.submit

    def counted(*arguments: Any) -> Any:
        nonlocal given
        given += 1
        return submit(*arguments)

    monkeypatch.setattr(Processes, "submit", counted)
    found = []
    async with Ledger.connect(server.url, entry_points=False) as ledger:
        async for one in results_of(pieces.warns, ledger, range(12), 2):
            found.append(one)
            assert given < len(found) + 2 * AHEAD_COUNT + 1
    assert found == list(range(12))


@pytest.mark.slow
async def test_processes_tell_their_warnings_themselves_and_each_once(
    server: RealServer, capfd: pytest.CaptureFixture[str]
) -> None:
    assert await all_done(server.url, pieces.warns) == [0, 1, 2]
    lines = capfd.readouterr().err.splitlines()
    assert sorted(line.partition(" warning upkeep ")[2] for line in lines) == [
        "tests.workers.pieces: portion 0",
        "tests.workers.pieces: portion 1",
        "tests.workers.pieces: portion 2",
    ]


def begun(process: subprocess.Popen[str]) -> list[int]:
    """Return the ids of the two processes that have begun."""
    assert process.stdout is not None
    return [int(process.stdout.readline()) for _ in range(2)]


def filled(server: RealServer) -> CommandLine:
    ledger = CommandLine(server.url)
    for name in ("ses_1", "ses_2"):
        ledger("ask", name, "bash", "make", "--no-wait", code=7)
    return ledger


def wait_for_the_end_of(pids: list[int]) -> None:
    def running() -> list[int]:
        return [pid for pid in pids if Path(f"/proc/{pid}/exe").exists()]

    wait_until(lambda: not running(), lambda: f"processes {running()} to end")


@pytest.mark.slow
def test_ctrl_c_ends_all_processes_of_a_command_without_a_trace(server: RealServer) -> None:
    with filled(server).beside(VERIFY_WITHOUT_END) as process:
        pids = begun(process)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        ran = ended(process)
    assert ran.code == 130
    assert "Traceback" not in ran.err
    assert [line for line in ran.err.splitlines() if not line.startswith("warning: ")] == []
    wait_for_the_end_of(pids)


@pytest.mark.slow
def test_processes_end_when_their_command_is_killed(server: RealServer) -> None:
    with filled(server).beside(VERIFY_WITHOUT_END) as process:
        pids = begun(process)
        process.kill()
        wait_for_the_end_of(pids)


def test_few_streams_are_no_work_for_more_than_one_process() -> None:
    assert processes_for(None, 10) == 1
    assert processes_for(3, 10) == 3
    assert processes_for(None, 2 * STREAMS_OF_A_PROCESS_COUNT) <= 2
