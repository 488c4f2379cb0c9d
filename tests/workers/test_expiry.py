"""The expiry worker: it ends due requests, repairs the index, and gives up no session but a damaged one."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from uuid import uuid4

import pytest

from ledger import Ledger, Runner, Timeouts
from ledger.stores.port import NOTHING_DUE, Due, StreamKey
from ledger.testing import TestClock
from tests.api.actors import OpenLedger, events_of, outcome_of, pend
from tests.projections.looking import project_all
from tests.support.backends import PARTITION_COUNT, Operator, as_redis
from tests.support.due_index import WRONG, set_hint
from tests.support.servers import RealServer
from tests.support.waiting import wait_until_async
from workers import expiry
from workers.expiry import Settler

SOON = Timeouts(attended=0.2, unattended=0.2)
SES = "ses_1"


@pytest.fixture
async def open_ledger(storage: RealServer | None, clock: TestClock) -> AsyncIterator[OpenLedger]:
    """Open one more ledger on the same storage, by the test's clock; every store in its turn."""
    url = f"memory://{uuid4().hex}" if storage is None else storage.url
    async with AsyncExitStack() as stack:

        async def opened(**_: object) -> Ledger:
            connecting = Ledger.connect(url, clock=clock, partitions=PARTITION_COUNT, entry_points=False)
            return await stack.enter_async_context(connecting)

        yield opened


@pytest.fixture
async def ledger(open_ledger: OpenLedger) -> Ledger:
    return await open_ledger()


@pytest.fixture
async def live_ledger(server: RealServer) -> AsyncIterator[Ledger]:
    """A ledger by the server's own clock."""
    async with Ledger.connect(server.url, partitions=PARTITION_COUNT, entry_points=False) as ledger:
        yield ledger


@asynccontextmanager
async def working(ledger: Ledger, compared_seconds: float = expiry.COMPARED_SECONDS) -> AsyncIterator[None]:
    """An expiry worker beside the test."""
    stop = asyncio.Event()
    task = asyncio.create_task(expiry.run(ledger, stop, compared_seconds))
    try:
        yield
    finally:
        stop.set()
        await task


async def has_expired(ledger: Ledger, session_id: str = SES) -> bool:
    return "expired" in await events_of(await ledger.attach(session_id))


# --- settling, on every store -------------------------------------------------------------------------------------


async def test_only_what_is_due_is_settled(ledger: Ledger, clock: TestClock) -> None:
    for number, minutes in enumerate((1, 2, 3)):
        session = await ledger.session(f"ses_{number}", timeouts=Timeouts(unattended=minutes * 60))
        await pend(session, "r")
    settler = Settler(ledger)
    assert await settler.settle_due() == 0
    assert await settler.earliest_ms() == clock.now_ms() + 60_000
    clock.advance("2m")
    assert await settler.settle_due() == 2
    outcomes = [await outcome_of(await ledger.attach(f"ses_{number}"), "r") for number in range(3)]
    assert outcomes == ["expired", "expired", None]
    assert await settler.earliest_ms() == clock.now_ms() + 60_000


async def test_two_at_once_write_each_expiry_once(open_ledger: OpenLedger, clock: TestClock) -> None:
    first, second = await open_ledger(), await open_ledger()
    for number in range(50):
        await pend(await first.session(f"ses_{number}"), "r")
    clock.advance("7d")
    await asyncio.gather(Settler(first).settle_due(), Settler(second).settle_due())
    for number in range(50):
        types = await events_of(await first.attach(f"ses_{number}"))
        assert types == ["session_opened", "asked", "expired"]
    assert await first.store.due(None, 100) == []


async def test_an_index_that_names_a_deadline_too_early_is_corrected(ledger: Ledger, clock: TestClock) -> None:
    asked = await pend(await ledger.session(SES), "r")
    deadline_ms = asked.request.deadline_ms
    at = (await ledger.attach(SES)).stream.position
    await ledger.store.correct_due(SES, deadline_ms, Due(clock.now_ms() - 5), at=at)
    await Settler(ledger).settle_due()
    assert await ledger.store.due(None, 10) == [(SES, deadline_ms)]


async def test_an_index_that_names_a_session_without_anything_pending_is_corrected(
    ledger: Ledger, clock: TestClock
) -> None:
    session = await ledger.session(SES)
    asked = await pend(session, "r")
    await session.cancel("r")
    elsewhere = await ledger.session("ses_2")
    other = await pend(elsewhere, "r")
    await ledger.store.correct_due("ses_2", other.request.deadline_ms, NOTHING_DUE, at=elsewhere.stream.position)
    await lose_hint(ledger, SES, asked.request.asked_ms)
    await Settler(ledger).settle_due()
    assert await ledger.store.due(None, 10) == []


async def test_a_claim_without_an_end_is_ended_at_its_timeout(open_ledger: OpenLedger, clock: TestClock) -> None:
    agent, worker = await open_ledger(), await open_ledger()
    rules = [{"permission": "bash", "pattern": "*", "action": "allow"}]
    session = await agent.session(SES, rules=rules, claim_timeout=600)
    await session.ask("bash", ["make"], request_id="r", claim=Runner("claude", "r"))
    assert await worker.store.due(None, 10) == [(SES, clock.now_ms() + 600_000)]
    clock.advance("9m")
    assert await Settler(worker).settle_due() == 0
    clock.advance("1m")
    assert await Settler(worker).settle_due() == 1
    assert (await events_of(session))[-1] == "end_unknown"
    assert await worker.store.due(None, 10) == []


async def test_the_end_of_a_run_takes_its_session_out_of_the_index(ledger: Ledger) -> None:
    session = await ledger.session(SES, rules=[{"permission": "bash", "pattern": "*", "action": "allow"}])
    async with session.permit("bash", ["make"]):
        assert [one for one, _ in await ledger.store.due(None, 10)] == [SES]
    assert await ledger.store.due(None, 10) == []


async def lose_hint(ledger: Ledger, session_id: str, at_ms: int) -> None:
    """As if the hint of an append had been lost: the index still names an old deadline."""
    store = ledger.store
    if hasattr(store, "_server"):
        store._server.due[session_id] = float(at_ms)
    else:
        due = as_redis(store).keys.due(StreamKey("session", session_id).partition(store.partition_count))
        await as_redis(store).command("ZADD", due, at_ms, session_id)


async def test_a_damaged_session_is_told_once_and_keeps_nobody_else_waiting(
    server: RealServer, admin: Operator, clock: TestClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with (
        Ledger.connect(server.url, clock=clock, partitions=PARTITION_COUNT) as agent,
        Ledger.connect(server.url, clock=clock, partitions=PARTITION_COUNT) as worker,
    ):
        await settle_beside_damage(agent, worker, admin, clock)
    told = [record.getMessage() for record in caplog.records if record.name == "workers.expiry"]
    assert [line.partition(",")[0] for line in told] == ["expiry: skipping session `ses_broken`"]


async def settle_beside_damage(agent: Ledger, worker: Ledger, admin: Operator, clock: TestClock) -> None:
    for session_id in ("ses_broken", "ses_whole"):
        await pend(await agent.session(session_id), "r")
    key = as_redis(agent.store).keys.stream(StreamKey("session", "ses_broken"))
    await admin.run("XADD", key, f"{clock.now_ms()}-3", "d", "not ours")
    clock.advance("7d")
    settler = Settler(worker)
    await settler.settle_due()
    assert await outcome_of(await worker.attach("ses_whole"), "r") == "expired"
    assert await settler.earliest_ms() is None
    settler.give_another_try()
    await settler.settle_due()
    assert [session for session, _ in await worker.store.due(None, 10)] == ["ses_broken"]


# --- an index that was lost, on every store ------------------------------------------------------------------------


@pytest.mark.parametrize("wrong", [name for name in WRONG if name != "too early"])
async def test_what_the_index_has_lost_is_added_as_the_pending_views_tell(
    ledger: Ledger, clock: TestClock, monkeypatch: pytest.MonkeyPatch, wrong: str
) -> None:
    for number in range(3):
        await pend(await ledger.session(f"ses_{number}"), "r")
    await ledger.session("ses_idle")
    before = await ledger.store.due(None, 10)
    await project_all(ledger)
    settler = Settler(ledger)
    assert await settler.mend() == 0
    await set_hint(ledger, "ses_1", WRONG[wrong])
    # A walk over all sessions would cost by their number.
    monkeypatch.setattr(ledger.store, "streams_page", None)
    assert await settler.mend() == 1
    assert await ledger.store.due(None, 10) == before
    assert await events_of(await ledger.attach("ses_1")) == ["session_opened", "asked"]


async def test_what_is_overdue_without_an_entry_is_settled_once(open_ledger: OpenLedger, clock: TestClock) -> None:
    first, second = await open_ledger(), await open_ledger()
    for number in range(20):
        await pend(await first.session(f"ses_{number}"), "r")
    await project_all(first)
    for number in range(20):
        await set_hint(first, f"ses_{number}", NOTHING_DUE)
    clock.advance("7d")
    assert await Settler(first).settle_due() == 0
    await asyncio.gather(Settler(first).mend(), Settler(second).mend())
    for number in range(20):
        assert await events_of(await first.attach(f"ses_{number}")) == ["session_opened", "asked", "expired"]
    assert await first.store.due(None, 100) == []


async def test_views_that_lag_put_nothing_into_the_index(ledger: Ledger) -> None:
    session = await ledger.session(SES)
    await pend(session, "r")
    await project_all(ledger)
    await session.reply("r", "once", actor="ann")
    assert await Settler(ledger).mend() == 0
    assert await ledger.store.due(None, 10) == []


async def test_a_damaged_session_that_the_index_lacks_keeps_nobody_else_waiting(
    server: RealServer, admin: Operator, clock: TestClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with Ledger.connect(server.url, clock=clock, partitions=PARTITION_COUNT) as ledger:
        for session_id in ("ses_broken", "ses_whole"):
            await pend(await ledger.session(session_id), "r")
        await project_all(ledger)
        for session_id in ("ses_broken", "ses_whole"):
            await set_hint(ledger, session_id, NOTHING_DUE)
        key = as_redis(ledger.store).keys.stream(StreamKey("session", "ses_broken"))
        await admin.run("XADD", key, f"{clock.now_ms()}-3", "d", "not ours")
    async with Ledger.connect(server.url, clock=clock, partitions=PARTITION_COUNT) as ledger:
        settler = Settler(ledger)
        await settler.mend()
        await settler.mend()
        assert [session for session, _ in await ledger.store.due(None, 10)] == ["ses_whole"]
    told = [one for one in caplog.messages if one.startswith("expiry: skipping session `ses_broken`")]
    assert len(told) == 1


@pytest.mark.slow
async def test_a_running_worker_ends_what_waits_although_the_index_was_lost(
    live_ledger: Ledger, caplog: pytest.LogCaptureFixture
) -> None:
    await pend(await live_ledger.session(SES, timeouts=Timeouts(unattended=2)), "r")
    await project_all(live_ledger)
    async with working(live_ledger, compared_seconds=0.05):
        await set_hint(live_ledger, SES, NOTHING_DUE)
        await wait_until_async(lambda: has_expired(live_ledger), "the expiry")
    assert "expiry: the index of deadlines lacked 1 sessions, which the views name; added" in caplog.messages


# --- the worker, by a real server's clock -------------------------------------------------------------------------


async def test_the_worker_wakes_for_the_nearest_deadline_whenever_it_was_set(live_ledger: Ledger) -> None:
    later = await live_ledger.session("ses_later", timeouts=Timeouts(unattended=60))
    await pend(later, "r")
    async with working(live_ledger):
        await pend(await live_ledger.session("ses_soon", timeouts=Timeouts(unattended=0.4)), "r")
        await pend(await live_ledger.session("ses_sooner", timeouts=Timeouts(unattended=0.2)), "r")
        await wait_until_async(lambda: has_expired(live_ledger, "ses_sooner"), "the nearest")
        await wait_until_async(lambda: has_expired(live_ledger, "ses_soon"), "the next")
    assert await outcome_of(later, "r") is None


async def test_what_fell_due_before_the_worker_started_is_settled_at_once(live_ledger: Ledger) -> None:
    asked = await pend(await live_ledger.session(SES, timeouts=Timeouts(unattended=0.001)), "r")
    due_ms = asked.request.deadline_ms or 0

    async def is_due() -> bool:
        return await live_ledger.store.now_ms() > due_ms

    await wait_until_async(is_due, "the deadline")
    async with working(live_ledger):
        await wait_until_async(lambda: has_expired(live_ledger), "the expiry")


async def test_a_lone_deadline_is_written_within_a_quarter_of_a_second(live_ledger: Ledger) -> None:
    async with working(live_ledger):
        asked = await pend(await live_ledger.session(SES, timeouts=SOON), "r")
        await wait_until_async(lambda: has_expired(live_ledger), "the expiry")
        result = await (await live_ledger.attach(SES)).result("r")
        # A benchmark says how late it really is; here the machine may be busy.
        assert 0 <= result.at_ms - (asked.request.deadline_ms or 0) < 250


async def test_the_worker_outlives_connections_that_break(live_ledger: Ledger, admin: Operator) -> None:
    async with working(live_ledger):
        await pend(await live_ledger.session(SES, timeouts=Timeouts(unattended=1)), "r")
        # Its connections break, again and again.
        for kind in ("normal", "pubsub", "normal"):
            await admin.run("CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes")
        await wait_until_async(lambda: has_expired(live_ledger), "the expiry")


async def test_the_worker_stops_although_nothing_ever_happens(live_ledger: Ledger) -> None:
    async with asyncio.timeout(60), working(live_ledger):
        pass


async def test_how_late_it_was_is_logged(live_ledger: Ledger, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "workers")
    async with working(live_ledger):
        await pend(await live_ledger.session(SES, timeouts=SOON), "r")
        await wait_until_async(
            lambda: [one for one in caplog.messages if one.startswith("expiry: settled 1 sessions, the last ")],
            "a word on lateness",
        )


class TickingClock(TestClock):
    """A clock on which a millisecond passes with each look."""

    def now_ms(self) -> int:
        self.advance(1)
        return super().now_ms()


async def test_the_index_has_the_deadline_itself_however_slow_the_writer_is() -> None:
    async with Ledger.connect("memory://", clock=TickingClock(), entry_points=False) as ledger:
        asked = await pend(await ledger.session(SES), "r")
        assert await ledger.store.due(None, 10) == [(SES, asked.request.deadline_ms)]
