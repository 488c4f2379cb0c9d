"""Any history: views that followed it event by event, views built at once and views compared are the same bytes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from uuid import uuid4

import pytest
import redis
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger import Ledger, LedgerError
from ledger.core.packed_records import Packing
from ledger.core.policy import ReplyKind
from ledger.log import snapshots
from ledger.session.state import SETTLED_PACKING, Settled
from ledger.stores.port import StreamKey
from ledger.testing import TestClock
from projections import queries
from projections.engine import Engine
from tests.projections import whole_views
from tests.projections.looking import RULES, as_rows, data_of, differences, project_all, rebuild_all, streams
from tests.support.servers import RealServer
from workers.expiry import Settler

PARTITION_COUNT = 3
SESSIONS = st.sampled_from(["ses_1", "ses_2", "ses_3"])
REQUESTS = st.sampled_from([f"r{number}" for number in range(5)])
CLIENTS = st.sampled_from(["phone", "laptop"])
COMMANDS = st.sampled_from(["git push", "git pull", "rm -rf /", "ls"])
USES = st.sampled_from([None, None, 1, 2])

Action = Callable[[Ledger, TestClock, Engine], Awaitable[object]]


def asks(session: str, request: str, command: str, permission: str) -> Action:
    async def act(ledger: Ledger, _clock: TestClock, _engine: Engine) -> object:
        handle = await ledger.attach(session)
        return await handle.submit(permission, [command], always=[f"{command[:3]}*"], request_id=request)

    return act


def replies(session: str, request: str, reply: ReplyKind, uses: int | None) -> Action:
    async def act(ledger: Ledger, _clock: TestClock, _engine: Engine) -> object:
        message = "not so" if len(request) % 2 and reply == "reject" else None
        bound = uses if reply in ("session", "always") else None
        return await (await ledger.attach(session)).reply(request, reply, actor="ann", message=message, uses=bound)

    return act


def comes(session: str, client: str, locks: bool) -> Action:
    async def act(ledger: Ledger, _clock: TestClock, _engine: Engine) -> object:
        handle = await ledger.attach(session)
        await handle.connect(client, actor=client)
        return await handle.take_lock(client, actor=client) if locks else None

    return act


def leaves(session: str, client: str) -> Action:
    async def act(ledger: Ledger, _clock: TestClock, _engine: Engine) -> None:
        await (await ledger.attach(session)).disconnect(client)

    return act


def grants(session: str, to_project: bool, expires_in_ms: int | None, uses: int | None) -> Action:
    async def act(ledger: Ledger, _clock: TestClock, _engine: Engine) -> object:
        if to_project:
            return await ledger.grant_in_project(
                "shop", "bash", "git *", actor="bob", expires_in_ms=expires_in_ms, uses=uses
            )
        handle = await ledger.attach(session)
        return await handle.grant("edit", "*", actor="bob", expires_in_ms=expires_in_ms, uses=uses)

    return act


def revokes(session: str) -> Action:
    async def act(ledger: Ledger, _clock: TestClock, _engine: Engine) -> None:
        handle = await ledger.attach(session)
        for one in (await handle.approved())[:1]:
            await handle.revoke(one.grant.grant_id, reason="enough", actor="bob")

    return act


def cancels(session: str, request: str) -> Action:
    async def act(ledger: Ledger, _clock: TestClock, _engine: Engine) -> object:
        return await (await ledger.attach(session)).cancel(request, reason="never mind")

    return act


def closes(session: str) -> Action:
    async def act(ledger: Ledger, _clock: TestClock, _engine: Engine) -> None:
        await (await ledger.attach(session)).close()

    return act


def waits(duration: str) -> Action:
    async def act(_ledger: Ledger, clock: TestClock, _engine: Engine) -> None:
        clock.advance(duration)

    return act


async def projects(ledger: Ledger, _clock: TestClock, engine: Engine) -> object:
    return await project_all(ledger, engine)


ACTIONS = st.lists(
    st.one_of(
        st.builds(asks, SESSIONS, REQUESTS, COMMANDS, st.sampled_from(["bash", "edit", "read"])),
        st.builds(asks, SESSIONS, REQUESTS, COMMANDS, st.just("bash")),
        st.builds(replies, SESSIONS, REQUESTS, st.sampled_from(["once", "session", "always", "reject"]), USES),
        st.builds(comes, SESSIONS, CLIENTS, st.booleans()),
        st.builds(leaves, SESSIONS, CLIENTS),
        st.builds(grants, SESSIONS, st.booleans(), st.sampled_from([None, 5000]), USES),
        st.builds(revokes, SESSIONS),
        st.builds(cancels, SESSIONS, REQUESTS),
        st.builds(closes, st.just("ses_3")),
        st.builds(waits, st.sampled_from(["3s", "61s", "8d"])),
        st.just(projects),
    ),
    min_size=15,
    max_size=60,
)


def packs_as_it_is(settled: Settled) -> bytes:
    packed = Packing.pack(SETTLED_PACKING, settled)
    assert SETTLED_PACKING.unpack(packed) == settled
    return packed


async def live_is_rebuilt(url: str, actions: list[Action]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SETTLED_PACKING, "pack", packs_as_it_is)
        await live_and_rebuilt(url, actions)


async def live_and_rebuilt(url: str, actions: list[Action]) -> None:
    clock = TestClock()
    async with Ledger.connect(url, clock=clock, partitions=PARTITION_COUNT, entry_points=False) as ledger:
        await ledger.session("ses_1", project="shop", rules=RULES)
        await ledger.session("ses_2", project="shop", rules=RULES, cascade_always="project", cascade_reject="none")
        await ledger.session("ses_3", rules=RULES, answering="lock-holder")
        engine = Engine(ledger.store)
        for action in actions:
            with suppress(LedgerError):
                await action(ledger, clock, engine)
        await project_all(ledger, engine)
        live = await data_of(ledger.store)
        assert await differences(ledger.store) == []
        await rebuild_all(ledger.store)
        assert await data_of(ledger.store) == live
        # A view has what is overdue until that is settled; the ledger leaves it out at once.
        await Settler(ledger).settle_due()
        await project_all(ledger, engine)
        await views_say_what_the_ledger_says(ledger)


async def views_say_what_the_ledger_says(ledger: Ledger) -> None:
    """The views against the core's own fold, read the plain way."""
    settled, versions = 0, {}
    for key in await streams(ledger.store):
        if key.kind == "session":
            handle = await ledger.attach(key.id)
            state = await handle.state()
            assert snapshots._decode(key, snapshots._encode(state)) == state
            settled += len(state.settled)
            versions[key.name] = state.version
            keys = [key] if state.project is None else [key, StreamKey("project", state.project)]
            now_ms = ledger.store.clock.now_ms()
            grants = [await whole_views.approved_of(ledger.store, one, now_ms) for one in keys]
            approved = [one.grant.grant_id for one in await handle.approved()]
            assert sorted(row["grant_id"] for one in grants for row in one.rows) == sorted(approved)
    shown = await whole_views.pending(ledger.store)
    waiting = sorted(await ledger.pending(), key=lambda one: (one.session, one.request.version))
    assert sorted(shown.rows, key=lambda row: (row["session"], row["version"])) == as_rows(waiting)
    totals, told = await queries.totals(ledger.store), await whole_views.versions(ledger.store)
    assert (sum(totals.decisions.values()), totals.pending) == (settled, len(waiting))
    assert (totals.streams, totals.events) == (len(told), sum(told.values()))
    assert {name: told[name] for name in versions} == versions


@pytest.mark.slow
@settings(max_examples=150)
@given(ACTIONS)
def test_after_any_history_in_memory_live_and_rebuilt_views_are_the_same_bytes(actions: list[Action]) -> None:
    asyncio.run(live_is_rebuilt(f"memory://{uuid4().hex}", actions))


@pytest.mark.slow
@settings(max_examples=60)
@given(actions=ACTIONS)
def test_after_any_history_on_a_server_live_and_rebuilt_views_are_the_same_bytes(
    shared_server: RealServer, actions: list[Action]
) -> None:
    with redis.Redis.from_url(shared_server.url) as client:
        client.flushall()
    asyncio.run(live_is_rebuilt(shared_server.url, actions))
