"""Guarded functions run once: claimed right before, ended with what happened, refused to another process."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, Final

import pytest

from ledger import AlreadyClaimedError, InputError, Ledger, Runner, Session, SyncLedger, SyncSession
from ledger.core.events import ToolFinished
from ledger.guarding import asking, guarded
from ledger.testing import TestClock
from tests.api.actors import ANN, RULES, raised
from tests.support.backends import PARTITION_COUNT
from tests.support.servers import RealServer
from tests.support.waiting import wait_until_async

KINDS: Final = ("claimed", "claim_released")


@pytest.fixture
def url(server: RealServer) -> str:
    """The URL of one store, which is enough here: guarded functions do not depend on the store."""
    return server.url


@pytest.fixture
async def session(ledger: Ledger) -> Session:
    return await ledger.session("ses_1", rules=RULES, cwd="/repo")


@pytest.fixture
def sync_session(url: str, clock: TestClock) -> Iterator[SyncSession]:
    connecting = SyncLedger.connect(url, clock=clock, partitions=PARTITION_COUNT, entry_points=False)
    with connecting as ledger:
        yield ledger.session("ses_1", rules=RULES, cwd="/repo")


@guarded("read", names={"file_path": "filePath"})
async def read(file_path: str) -> str:
    if file_path == "broken":
        raise OSError("the disk is gone")
    return f"content of {file_path}"


async def ends(session: Session) -> list[tuple[str, Any]]:
    """Return each claim and end in the log, with ok and the recorded text of an end."""
    found: list[tuple[str, Any]] = []
    async for one in session.events(follow_on=False):
        if isinstance(one.event, ToolFinished):
            detail = one.event.detail
            found.append((one.type, (one.event.ok, None if detail is None else detail.output)))
        elif one.type in KINDS:
            found.append((one.type, None))
    return found


async def test_a_call_is_claimed_before_it_runs_and_its_end_recorded_after(session: Session) -> None:
    with asking(session):
        assert await read("a.txt") == "content of a.txt"
    assert await ends(session) == [("claimed", None), ("tool_finished", (True, None))]


async def test_an_error_of_the_function_is_recorded_and_raised(session: Session) -> None:
    with asking(session), pytest.raises(OSError, match="the disk is gone"):
        await read("broken")
    assert await ends(session) == [("claimed", None), ("tool_finished", (False, "OSError: the disk is gone"))]


async def test_two_processes_with_one_request_id_do_not_both_run(session: Session) -> None:
    with asking(session, request_id="call_42"):
        await read("a.txt")
    with asking(session, request_id="call_42"):
        error = await raised(read("a.txt"))
    assert isinstance(error, AlreadyClaimedError)
    assert error.agent == "stop"


async def test_two_at_once_with_one_request_id_run_once(session: Session) -> None:
    ran = []
    go_on = asyncio.Event()

    @guarded("read", names={"file_path": "filePath"})
    async def slow(file_path: str) -> None:
        ran.append(file_path)
        await go_on.wait()

    async def call() -> None:
        with asking(session, request_id="call_42"):
            await slow("a.txt")

    calls = [asyncio.create_task(call()) for _ in range(8)]
    await wait_until_async(lambda: sum(one.done() for one in calls) == 7, "all but one to be refused")
    go_on.set()
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert ran == ["a.txt"]
    assert [type(one) for one in results if one is not None] == [AlreadyClaimedError] * 7


async def test_a_workflow_run_that_died_claims_its_call_again(session: Session) -> None:
    dying = session.permit_tool("read", {"filePath": "a.txt"}, request_id="call_42", claim=Runner("run 7", "call_42"))
    await dying.__aenter__()
    with asking(session, request_id="call_42", runner="run 8"):
        assert isinstance(await raised(read("a.txt")), AlreadyClaimedError)
    with asking(session, request_id="call_42", runner="run 7"):
        assert await read("a.txt") == "content of a.txt"


async def test_a_changed_input_that_does_not_fit_runs_nothing_and_is_recorded_as_failed(session: Session) -> None:
    @guarded("bash")
    async def run(command: str) -> None:
        raise AssertionError(command)

    async def pending() -> bool:
        return bool(await session.pending())

    with asking(session, request_id="call_42"):
        call = asyncio.create_task(run("git push"))
        await wait_until_async(pending, "the request to be pending")
        await session.reply("call_42", "once", actor=ANN, updated_input={"force": True})
        assert isinstance(await raised(call), InputError)
    [claimed, (kind, (ok, said))] = await ends(session)
    assert (claimed[0], kind, ok, said.startswith("InputError: ")) == ("claimed", "tool_finished", False, True)


def test_a_plain_function_is_claimed_and_ended_through_a_blocking_session(sync_session: SyncSession) -> None:
    @guarded("read", names={"file_path": "filePath"})
    def plain(file_path: str) -> str:
        return file_path

    with asking(sync_session, request_id="call_42"):
        assert plain("a.txt") == "a.txt"
    types = [one.type for one in sync_session.events(follow_on=False)]
    assert types == ["session_opened", "asked", "claimed", "tool_finished"]
    with asking(sync_session, request_id="call_42"), pytest.raises(AlreadyClaimedError):
        plain("a.txt")


async def test_a_plain_function_in_a_thread_is_claimed_and_ended_through_the_loop(session: Session) -> None:
    @guarded("read", names={"file_path": "filePath"})
    def plain(file_path: str) -> str:
        return file_path

    with asking(session):
        assert await asyncio.to_thread(plain, "a.txt") == "a.txt"
    assert await ends(session) == [("claimed", None), ("tool_finished", (True, None))]
