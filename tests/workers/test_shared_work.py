"""Work that is shared among processes: the errors that they meet, and processes that end by themselves."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from ledger import Ledger
from ledger.core.errors import InputError, LedgerError, StoreError
from ledger.stores.port import StreamKey
from tests.support.servers import RealServer
from tests.support.waiting import wait_until_async
from workers.upkeep import shared_work
from workers.upkeep.shared_work import PORTIONS_AHEAD_COUNT, STREAMS_OF_A_PROCESS_COUNT, Begin, processes_for, share
from workers.upkeep.stream_checks import Checked
from workers.upkeep.works import CheckStreams, portions_to_check

SES = [StreamKey("session", f"ses_{number}") for number in range(5)]


async def checked(url: str, portions: int, processes: int) -> list[Checked]:
    found: list[Checked] = []
    work = Begin(url, CheckStreams("chain"))
    cut = [one for key in SES[:portions] for one in portions_to_check([key], {})]
    await share(work, cut, processes, found.extend)
    return found


@pytest.fixture
async def server(server: RealServer) -> RealServer:
    async with Ledger.connect(server.url, entry_points=False) as ledger:
        for key in SES:
            await ledger.session(key.id)
    return server


async def test_results_come_in_the_order_of_the_portions(server: RealServer) -> None:
    found = await checked(server.url, 5, 3)
    assert [one.key for one in found] == SES
    assert [one.ok for one in found] == [True] * 5


async def test_results_that_nobody_takes_hold_up_the_processes(
    server: RealServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = taken = 0
    send = shared_work._send

    async def counted(process: Any, message: Any) -> None:
        nonlocal given
        given += not isinstance(message, Begin)
        assert given - taken <= 2 * PORTIONS_AHEAD_COUNT
        await send(process, message)

    async def take(_: list[Checked]) -> None:
        nonlocal taken
        # The others go on until they are held up.
        await wait_until_async(lambda: given == min(portions, taken + 2 * PORTIONS_AHEAD_COUNT), "portions to be given")
        taken += 1

    monkeypatch.setattr(shared_work, "_send", counted)
    portions = 12
    cut = [one for key in SES * 3 for one in portions_to_check([key], {})][:portions]
    await share(Begin(server.url, CheckStreams("chain")), cut, 2, take)
    assert (given, taken) == (portions, portions)


async def test_no_portions_start_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_work, "COMMAND", ("/nowhere",))
    assert await checked("memory://", 0, 3) == []


async def test_an_error_of_a_process_is_that_of_the_command() -> None:
    with pytest.raises(ExceptionGroup) as caught:
        await checked("nonsense://", 2, 1)
    assert isinstance(error_in(caught.value), InputError)


async def test_a_process_that_ends_by_itself_ends_the_command_with_an_error(
    server: RealServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_work, "COMMAND", (sys.executable, "-c", "import sys; sys.stdin.buffer.read(1)"))
    with pytest.raises(ExceptionGroup) as caught:
        await checked(server.url, 3, 2)
    error = error_in(caught.value)
    assert isinstance(error, StoreError)
    assert "run the command again" in error.text


def error_in(group: ExceptionGroup[Any]) -> LedgerError:
    one: Any = group
    while isinstance(one, ExceptionGroup):
        one = one.exceptions[0]
    assert isinstance(one, LedgerError)
    return one


def test_few_streams_are_no_work_for_more_than_one_process() -> None:
    assert processes_for(None, 10) == 1
    assert processes_for(3, 10) == 3
    assert processes_for(None, 2 * STREAMS_OF_A_PROCESS_COUNT) <= 2
