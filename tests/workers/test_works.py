"""Work of a command that processes share: their errors and warnings are the command's, and they end with it."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ledger import Ledger
from ledger.core.errors import InputError, LedgerError, StoreError
from tests.support.command_line import CommandLine, ended
from tests.support.servers import RealServer
from tests.support.waiting import wait_until
from tests.workers.pieces import Dies, Warns
from workers.upkeep.works import STREAMS_OF_A_PROCESS_COUNT, CheckStreams, do_all, processes_for

VERIFY_WITHOUT_END = """
import sys
from tests.workers.pieces import Waits
from workers.cli import cli, verify
from workers.cli.frame import run
from workers.upkeep import works

works.CHECKED_AT_ONCE_COUNT = 1
verify.CheckStreams = Waits
sys.argv[1:] = ["verify", "--all", "--jobs", "2"]
sys.exit(run(cli))
"""


def error_in(group: BaseException) -> LedgerError:
    one: Any = group
    while isinstance(one, ExceptionGroup):
        one = one.exceptions[0]
    assert isinstance(one, LedgerError)
    return one


async def all_done(url: str, work: Any, *, portions: int = 3) -> list[Any]:
    found: list[Any] = []
    async with Ledger.connect(url, entry_points=False) as ledger:
        await do_all(ledger, work, range(portions), 2, found.append)
    return found


async def test_a_process_that_is_killed_ends_the_command_with_an_error(server: RealServer) -> None:
    with pytest.raises(StoreError, match="run the command again"):
        await all_done(server.url, Dies())


async def test_an_error_of_a_process_is_that_of_the_command() -> None:
    class Elsewhere:
        server_url = "nonsense://"

    ledger: Any = Elsewhere()
    with pytest.raises(ExceptionGroup) as caught:
        await do_all(ledger, CheckStreams("chain"), [1, 2], 2, lambda _: None)
    assert isinstance(error_in(caught.value), InputError)


async def test_warnings_of_a_process_are_logged_by_the_command(
    server: RealServer, caplog: pytest.LogCaptureFixture
) -> None:
    assert await all_done(server.url, Warns()) == [0, 1, 2]
    told = [record.getMessage() for record in caplog.records if record.name == "workers.upkeep.works"]
    assert [text for text in told if text.startswith("portion")] == ["portion 0", "portion 1", "portion 2"]


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


def test_ctrl_c_ends_all_processes_of_a_command_without_a_trace(server: RealServer) -> None:
    with filled(server).beside(VERIFY_WITHOUT_END) as process:
        pids = begun(process)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        ran = ended(process)
    assert ran.code == 130
    assert "Traceback" not in ran.err
    assert [line for line in ran.err.splitlines() if not line.startswith("warning: ")] == []
    wait_for_the_end_of(pids)


def test_processes_end_when_their_command_is_killed(server: RealServer) -> None:
    with filled(server).beside(VERIFY_WITHOUT_END) as process:
        pids = begun(process)
        process.kill()
        wait_for_the_end_of(pids)


def test_few_streams_are_no_work_for_more_than_one_process() -> None:
    assert processes_for(None, 10) == 1
    assert processes_for(3, 10) == 3
    assert processes_for(None, 2 * STREAMS_OF_A_PROCESS_COUNT) <= 2
