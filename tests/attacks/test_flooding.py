"""Attacks by one token with costly or endless work, to keep others from being served."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from multiprocessing import active_children
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from ledger import Ledger
from ledger.core.errors import InputError
from ledger.policy import PolicySource
from ledger.session.state import SessionState
from tests.gateway.callers import Caller, Served, served
from tests.support.servers import RealServer
from tests.support.waiting import wait_until_async
from workers.gateway import worker_pool as pool_module
from workers.gateway.bodies import AskBody
from workers.gateway.quotas import Quotas
from workers.gateway.settings import GatewaySettings
from workers.gateway.worker_pool import (
    LOOP_SECONDS_MAX,
    REST_SECONDS_MAX,
    BusyError,
    TooCostlyError,
    WorkerPool,
    rehearse_ask,
)

# Each wildcard may match anywhere, so every rule scans the whole command again: over a second per line.
ENDLESS: Final = {
    "dialect": "betcode",
    "config": {"permissions": {"allow": [f"Bash({'*a' * 40}{n})" for n in range(300)]}},
}
LONG: Final = "a " * 30_000
LINES_COUNT: Final = 12
"""The number of lines, 88 kB each: about 1.1 MB, and fifteen seconds of work."""

PATIENCE_S: Final = 150.0

SMALL: Final = Quotas(pending=3, pending_bytes=100_000, streams=2, sessions_an_hour=4)


@pytest.fixture
def sockets() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="pl-gw-"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
async def ledger(server: RealServer) -> AsyncIterator[Ledger]:
    async with Ledger.connect(server.url) as ledger:
        yield ledger


@pytest.fixture
async def gateway(ledger: Ledger, sockets: Path) -> AsyncIterator[Served]:
    async with served(ledger, sockets / "gateway.sock") as one:
        yield one


@pytest.fixture
async def small(ledger: Ledger, sockets: Path) -> AsyncIterator[Served]:
    async with served(ledger, sockets / "small.sock", GatewaySettings(quotas=SMALL)) as one:
        yield one


async def patient(gateway: Served, *role: Any, **more: Any) -> Caller:
    """A caller with long time-outs, for a busy machine."""
    caller = await gateway.caller(*(role or ("agent",)), **more)
    caller.http.timeout = httpx.Timeout(PATIENCE_S)
    return caller


def line(command: str) -> dict[str, Any]:
    return {**ENDLESS, "tool": "Bash", "input": {"command": command}, "cwd": "/w"}


@pytest.mark.slow
async def test_stalling_everybody_with_one_policy_check(gateway: Served) -> None:
    agent, ann = await patient(gateway), await patient(gateway, "approver")
    checking = asyncio.create_task(agent.post("/v1/policy/check", [line(f"{LONG}{n}") for n in range(LINES_COUNT)]))
    await wait_until_async(lambda: gateway.gateway.pool.is_busy, "the check to be under way")
    seen = await ann.get("/v1/pending")
    assert (seen.status_code, checking.done()) == (200, False)
    refused = await checking
    assert (refused.status_code, refused.json()["code"]) == (422, "TOO_COSTLY")
    assert "send less at once" in refused.json()["detail"]
    # Its replacement does the next one's work.
    done = await agent.post("/v1/policy/check", {"dialect": "opencode", "permission": "bash", "patterns": []})
    assert done.json()["verdict"] == "allow"


@pytest.mark.slow
async def test_taking_all_the_processes_with_many_checks_at_once(gateway: Served) -> None:
    agent, other = await patient(gateway), await patient(gateway, "agent", "other")
    lines = [line(f"{LONG}{n}") for n in range(LINES_COUNT)]
    checking = [asyncio.create_task(agent.post("/v1/policy/check", lines)) for _ in range(12)]
    await wait_until_async(lambda: any(one.done() for one in checking), "one of them to be refused")
    busy = next(one for one in checking if one.done()).result()
    assert (busy.status_code, busy.json()["code"], busy.headers["retry-after"]) == (429, "BUSY", "1")
    answered = await other.post("/v1/policy/check", {"dialect": "opencode", "permission": "bash", "patterns": []})
    assert answered.json()["verdict"] == "allow"
    assert not all(one.done() for one in checking)
    for one in checking:
        one.cancel()
    await asyncio.gather(*checking, return_exceptions=True)


@pytest.mark.slow
async def test_stalling_everybody_with_an_ask_that_costs_too_much(gateway: Served) -> None:
    agent = await patient(gateway, brings_rules=True)
    body = {"dialect": "claude", "rules": ENDLESS["config"], "cwd": "/w"}
    opened = await agent.put("/v1/sessions/ses_1", body)
    assert opened.status_code == 201, opened.text
    asked = {"tool_name": "Bash", "input": {"command": LONG}, "request_id": "r1"}
    refused = await agent.post("/v1/sessions/ses_1/asks", asked)
    assert (refused.status_code, refused.json()["code"]) == (422, "TOO_COSTLY")
    assert (await agent.get("/v1/sessions/ses_1/asks/r1")).status_code == 404
    cheap = await agent.post("/v1/sessions/ses_1/asks", {**asked, "input": {"command": "ls"}})
    assert cheap.status_code in (200, 202)


@pytest.mark.slow
async def test_a_costly_ask_that_is_within_its_budget_is_answered(
    gateway: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A busy machine takes more time for the same work.
    monkeypatch.setattr(pool_module, "LOOP_SECONDS_MAX", PATIENCE_S)
    agent = await patient(gateway, brings_rules=True)
    await agent.put("/v1/sessions/ses_1", {"rules": [{"permission": "bash", "pattern": "*", "action": "ask"}]})
    asked = await agent.post("/v1/sessions/ses_1/asks", {"tool_name": "bash", "input": {"command": f"echo {LONG}"}})
    assert asked.status_code == 202, asked.text


@pytest.fixture
def pool() -> Iterator[WorkerPool]:
    pool = WorkerPool()
    yield pool
    pool.close()


def endless(pool: WorkerPool, caller: str, *, seconds: float = 20) -> asyncio.Task[Any]:
    return asyncio.create_task(pool.run(caller, "check", [line(f"{LONG}{n}") for n in range(50)], seconds=seconds))


@pytest.mark.slow
async def test_keeping_the_loop_busy_with_costly_work_one_after_the_other(pool: WorkerPool) -> None:
    long = [{"dialect": "opencode", "permission": "bash", "patterns": [f"echo {LONG}{n}" for n in range(LINES_COUNT)]}]
    await pool.run("plt_1", "check", long, seconds=20, rests=True)
    began = time.monotonic()
    again, other = (asyncio.create_task(pool.run(name, "check", [], seconds=20)) for name in ("plt_1", "plt_2"))
    await other
    await again
    assert time.monotonic() - began > REST_SECONDS_MAX / 2


@pytest.mark.slow
async def test_work_without_an_end_is_ended_and_more_of_it_is_refused(pool: WorkerPool) -> None:
    found = await asyncio.gather(*(endless(pool, "plt_1", seconds=0.1) for _ in range(9)), return_exceptions=True)
    assert {type(one) for one in found} == {TooCostlyError, BusyError}
    assert LOOP_SECONDS_MAX < 0.3


@pytest.mark.slow
async def test_work_that_is_killed_takes_no_other_along(pool: WorkerPool) -> None:
    long = endless(pool, "plt_1")
    await wait_until_async(lambda: pool.is_busy, "the work to be under way")
    with pytest.raises(TooCostlyError):
        await endless(pool, "plt_2", seconds=0.1)
    assert await pool.run("plt_2", "check", [], seconds=20) == []
    assert not long.done()
    pool.close()
    with pytest.raises(TooCostlyError):
        await long


async def test_a_process_that_is_killed_while_it_is_idle_is_replaced(pool: WorkerPool) -> None:
    before = set(active_children())
    await pool.run("plt_1", "check", [], seconds=20)
    (process,) = set(active_children()) - before
    process.kill()
    await wait_until_async(lambda: any(one._broken for one in pool._all), "the process to be missed")
    assert await pool.run("plt_1", "check", [], seconds=20) == []


@pytest.mark.parametrize("cancelled", [True, False])
async def test_work_whose_caller_left_or_that_takes_too_long_is_killed(
    pool: WorkerPool, monkeypatch: pytest.MonkeyPatch, *, cancelled: bool
) -> None:
    monkeypatch.setattr(pool_module, "WALL_SECONDS_MAX", PATIENCE_S if cancelled else 0.5)
    before = set(active_children())
    work = endless(pool, "plt_1")
    started = await wait_until_async(lambda: set(active_children()) - before, "a process to have work")
    if cancelled:
        work.cancel()
    with pytest.raises(asyncio.CancelledError if cancelled else TooCostlyError):
        await work
    await wait_until_async(lambda: not started & set(active_children()), "the process to be gone")


async def test_work_that_waits_when_the_gateway_ends_starts_no_process(pool: WorkerPool) -> None:
    before = set(active_children())
    waiting = [endless(pool, f"plt_{n % 3}") for n in range(9)]
    await wait_until_async(lambda: pool.is_busy, "a process to have work")
    pool.close()
    found = await asyncio.gather(*waiting, return_exceptions=True)
    assert {type(one) for one in found} == {TooCostlyError, BusyError}
    assert set(active_children()) <= before


async def test_sending_long_bodies_as_if_they_were_short_ones(ledger: Ledger, sockets: Path) -> None:
    slow = GatewaySettings(requests_per_second=0.001, requests_burst=10)
    async with served(ledger, sockets / "slow.sock", slow) as one:
        agent, other = await one.caller("agent"), await one.caller("agent", "other")
        long = {"dialect": "opencode", "permission": "bash", "patterns": ["x" * 100_000]}
        codes = [(await agent.post("/v1/policy/check", long)).status_code for _ in range(2)]
        assert codes == [200, 429]

        async def endless() -> AsyncIterator[bytes]:
            yield b"{}"

        headers = {"Content-Type": "application/json"}
        await other.http.post("/v1/policy/check", content=endless(), headers=headers)
        assert (await other.get("/v1/me")).status_code == 429


class Recorder:
    """Records the work that would run beside the loop."""

    def __init__(self) -> None:
        self.names: list[str] = []

    async def run(self, _: str, name: str, __: Any, **___: Any) -> None:
        self.names.append(name)


@pytest.mark.parametrize("member", ["input", "metadata", "always"])
async def test_hiding_a_long_text_where_nobody_counts_it(member: str) -> None:
    long: Any = ["a " * 5_000] if member == "always" else {"text": "a " * 5_000}
    body = AskBody(permission="bash", patterns=["ls"], **{member: long})
    recorder: Any = Recorder()
    await rehearse_ask(recorder, "plt_1", SessionState(session_id="ses_1"), body, PolicySource())
    assert recorder.names == ["rehearse"]
    short = AskBody(permission="bash", patterns=["ls"])
    await rehearse_ask(recorder, "plt_1", SessionState(session_id="ses_1"), short, PolicySource())
    assert recorder.names == ["rehearse"]


async def opened(gateway: Served, *sessions: str) -> Caller:
    agent = await gateway.caller("agent", brings_rules=True)
    for session in sessions:
        answer = await agent.put(f"/v1/sessions/{session}", {"rules": [], "dialect": "opencode"})
        assert answer.status_code == 201, answer.text
    return agent


@pytest.mark.slow
async def test_filling_the_inbox_with_requests(small: Served) -> None:
    agent, other = await opened(small, "ses_1", "ses_2"), await opened(small, "ses_3")
    for session, number in (("ses_1", 1), ("ses_1", 2), ("ses_2", 3)):
        assert (await agent.ask(session, f"git push {number}", request_id=f"r{number}")).status_code == 202
    refused = await agent.ask("ses_2", "git push 4", request_id="r4")
    assert (refused.status_code, refused.json()["code"]) == (429, "QUOTA")
    assert int(refused.headers["retry-after"]) >= 1
    assert "3 requests of this token wait for an answer" in refused.json()["detail"]
    again = await agent.ask("ses_1", "git push 1", request_id="r1")
    assert (again.status_code, (await other.ask("ses_3")).status_code) == (202, 202)
    ann = await small.caller("approver")
    await ann.post("/v1/sessions/ses_1/asks/r1/reply", {"reply": "once"})

    async def taken() -> bool:
        return (await agent.ask("ses_2", "git push 4", request_id="r4")).status_code == 202

    await wait_until_async(taken, "an answered request to make room")


@pytest.mark.slow
async def test_filling_the_inbox_with_long_requests_at_once(small: Served) -> None:
    agent = await opened(small, "ses_1")
    agent.http.timeout = httpx.Timeout(PATIENCE_S)
    asks = [agent.ask("ses_1", f"echo {number} " + "x" * 40_000, request_id=f"r{number}") for number in range(6)]
    codes = sorted([one.status_code for one in await asyncio.gather(*asks)])
    assert codes == [202, 202, 429, 429, 429, 429]


async def test_what_waited_before_the_gateway_was_started_again_counts(
    small: Served, ledger: Ledger, sockets: Path
) -> None:
    agent = await opened(small, "ses_1")
    for number in range(3):
        await agent.ask("ses_1", f"git push {number}")
    async with served(ledger, sockets / "again.sock", GatewaySettings(quotas=SMALL)) as again:
        token = agent.http.headers["authorization"].removeprefix("Bearer ")
        refused = await again.caller_with(token).ask("ses_1", "git push 3")
        assert refused.json()["code"] == "QUOTA"


async def test_opening_sessions_without_end(small: Served) -> None:
    agent = await opened(small, "ses_1", "ses_2", "ses_3", "ses_4")
    refused = await agent.put("/v1/sessions/ses_5", {})
    assert (refused.status_code, refused.json()["code"]) == (429, "QUOTA")
    assert "4 sessions an hour" in refused.json()["detail"]
    assert (await agent.put("/v1/sessions/ses_1", {})).status_code == 200
    await opened(small, "ses_6")


async def test_opening_event_streams_without_end(small: Served) -> None:
    agent = await opened(small, "ses_1")
    async with agent.http.stream("GET", "/v1/events"), agent.http.stream("GET", "/v1/sessions/ses_1/events"):
        refused = await agent.get("/v1/events")
        assert (refused.status_code, refused.json()["code"]) == (429, "QUOTA")
        other = await small.caller("approver")
        assert await other.status("GET", "/v1/events") == 200

    async def served_again() -> bool:
        return await agent.status("GET", "/v1/events") == 200

    await wait_until_async(served_again, "a place to be free again")


async def test_refusals_are_counted(small: Served) -> None:
    agent = await opened(small, "ses_1", "ses_2", "ses_3", "ses_4")
    await agent.put("/v1/sessions/ses_5", {})
    admin = await small.caller("admin")
    text = (await admin.get("/metrics")).text
    assert 'permission_ledger_quota_refusals_total{quota="sessions_an_hour"} 1.0' in text


@pytest.mark.parametrize("text", ["pending", "pending=", "pending=0", "pending=-1", "what=3", "pending=1e3"])
def test_a_quota_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="write NAME=NUMBER"):
        Quotas.read([text])


def test_a_quota_is_read_by_its_name() -> None:
    assert Quotas.read(["sessions-an-hour=5", "streams=7"]) == Quotas(sessions_an_hour=5, streams=7)
