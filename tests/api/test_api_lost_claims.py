"""A claim that a failover loses before it is confirmed: it is claimed again, or another runner has it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from uuid import uuid4

import pytest

from ledger import AlreadyClaimedError, Ledger, Runner
from ledger.core import codec
from ledger.core.events import Claimed
from ledger.stores.durability import Durability
from ledger.stores.memory import MemoryStore
from ledger.stores.port import Entry, Position, StreamKey
from tests.api.actors import RULES, OpenLedger, events_of, raised

RUN = Runner("workflow", "step_1")
OTHER = Runner("worker-2", "step_1")

Then = Callable[[], Awaitable[object]]


class Failover:
    """A store that confirms, and loses the first claim that it is asked to confirm; `then` happens right after."""

    def __init__(self) -> None:
        self.is_due = False
        self.then: Then | None = None

    async def confirm(self, store: MemoryStore, key: StreamKey, at: Position) -> Entry | None:
        entries = store._server.streams.get(key, [])
        if self.is_due and entries and isinstance(codec.decode(entries[-1].payload).event, Claimed):
            self.is_due = False
            del entries[-1]
            if self.then is not None:
                await self.then()
        return next((entry for entry in entries if entry.position == at), None)


@pytest.fixture
def url() -> str:
    return f"memory://{uuid4().hex}"


@pytest.fixture
def failover(monkeypatch: pytest.MonkeyPatch) -> Failover:
    one = Failover()

    async def confirm(store: MemoryStore, key: StreamKey, at: Position) -> Entry | None:
        return await one.confirm(store, key, at)

    monkeypatch.setattr(MemoryStore, "durability", Durability(wait_replicas=1))
    monkeypatch.setattr(MemoryStore, "confirm", confirm)
    return one


async def claimed_elsewhere(open_ledger: OpenLedger) -> Ledger:
    """Return another process's ledger once a runner has asked and claimed in the first one's."""
    session = await (await open_ledger()).session("ses_1", rules=RULES)
    await session.ask("read", ["a.py"], request_id="call_1", claim=RUN)
    return await open_ledger()


@pytest.mark.parametrize("with_an_ask", [False, True])
async def test_the_same_runner_claims_it_again(
    open_ledger: OpenLedger, failover: Failover, *, with_an_ask: bool
) -> None:
    session = await (await claimed_elsewhere(open_ledger)).attach("ses_1")
    failover.is_due = True
    if with_an_ask:
        result = await session.submit("read", ["a.py"], request_id="call_1", claim=RUN)
        assert result.as_json()["claim"]["runner"] == RUN.name
    else:
        assert (await session.claim("call_1", runner=RUN)).runner == RUN.name
    assert not failover.is_due
    assert (await events_of(session)).count("claimed") == 1


@pytest.mark.parametrize("with_an_ask", [False, True])
async def test_it_is_refused_where_another_runner_has_claimed_it_meanwhile(
    open_ledger: OpenLedger, failover: Failover, *, with_an_ask: bool
) -> None:
    session = await (await claimed_elsewhere(open_ledger)).attach("ses_1")
    other = await (await open_ledger()).attach("ses_1")

    async def claim() -> None:
        await other.claim("call_1", runner=OTHER)

    failover.is_due, failover.then = True, claim
    if with_an_ask:
        error = await raised(session.submit("read", ["a.py"], request_id="call_1", claim=RUN))
    else:
        error = await raised(session.claim("call_1", runner=RUN))
    assert isinstance(error, AlreadyClaimedError)
    assert error.data["runner"] == OTHER.name
