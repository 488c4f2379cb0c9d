"""Atomic steps of a projector: repeated, crashed, raced, and over histories that were lost."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from ledger import DamageError, Ledger, NewerSchemaError
from ledger.core.commitments import after_entry
from ledger.core.errors import StoreError
from ledger.log import tail
from ledger.log.tail import LostHistoryError
from ledger.log.viewed import SESSIONS_VIEW, streams_behind
from ledger.stores.port import CHECKPOINTS_VIEW, StreamKey, ViewWrite
from ledger.stores.redis.store import RedisStore
from ledger.stores.store import Store
from projections import engine as engine_module
from projections import queries
from projections.engine import CaughtUp, Engine, project_anew
from projections.lag import FedLag, events_behind
from projections.projection import Seen
from tests.projections import whole_views
from tests.projections.looking import RULES, data_of, differences, project_all, rebuild_all, streams
from tests.support.backends import append_of, as_redis, written
from tests.support.store_calls import checkpoint, drop_all_views, project
from workers.projector import CatchingUp

SES_1 = StreamKey("session", "ses_1")
SHOP = StreamKey("project", "shop")


@pytest.fixture
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_module, "STEP_EVENTS", 3)
    monkeypatch.setattr(engine_module, "PAGE_EVENTS", 7)


async def busy_session(ledger: Ledger, requests: int = 10) -> None:
    session = await ledger.session("ses_1", rules=RULES, project="shop", cascade_reject="none")
    for number in range(requests):
        await session.submit("bash", [f"git {number}"], always=["git *"], request_id=f"r{number}")
    for number in range(0, requests, 2):
        await session.reply(f"r{number}", "reject", actor="ann")


async def test_what_was_projected_is_not_projected_again(ledger: Ledger) -> None:
    await busy_session(ledger)
    assert (await Engine(ledger.store).catch_up(SES_1))[:3] == (SES_1, 16, 16)
    before = await data_of(ledger.store)
    assert (await Engine(ledger.store).catch_up(SES_1))[:3] == (SES_1, 16, 0)
    assert await data_of(ledger.store) == before


async def test_a_stream_that_is_not_there_changes_nothing(ledger: Ledger) -> None:
    assert (await Engine(ledger.store).catch_up(StreamKey("session", "ses_none")))[:3] == (
        StreamKey("session", "ses_none"),
        0,
        0,
    )
    assert await data_of(ledger.store) == {}


async def test_event_by_event_and_all_at_once_give_the_same_bytes(ledger: Ledger) -> None:
    session = await ledger.session("ses_1", rules=RULES)
    engine = Engine(ledger.store)
    for number in range(8):
        await session.submit("bash", [f"git {number}"], request_id=f"r{number}")
        await engine.catch_up(SES_1)
        if number % 3 == 0:
            await session.reply(f"r{number}", "once", actor="ann")
            await engine.catch_up(SES_1)
    await project_all(ledger, engine)
    live = await data_of(ledger.store)
    await rebuild_all(ledger.store)
    assert await data_of(ledger.store) == live


@pytest.mark.usefixtures("small_steps")
async def test_a_crash_between_two_steps_leaves_the_views_as_of_the_step_before(ledger: Ledger) -> None:
    await busy_session(ledger)
    steps = 0

    async def crash_before_the_third(_: StreamKey, seen: Sequence[Seen]) -> None:
        nonlocal steps
        steps += 1
        if steps == 3:
            raise StoreError("killed")

    with pytest.raises(StoreError):
        await Engine(ledger.store, before_step=crash_before_the_third).catch_up(SES_1)
    assert (await whole_views.pending_of(ledger.store, "ses_1")).as_of == {"session:ses_1": 6}
    assert len((await whole_views.pending_of(ledger.store, "ses_1")).rows) == 5
    assert await differences(ledger.store) == []
    assert await events_behind(ledger.store, [SES_1]) == {SES_1: 10}
    assert (await Engine(ledger.store).catch_up(SES_1))[:3] == (SES_1, 16, 10)
    assert await differences(ledger.store) == []


@pytest.mark.usefixtures("small_steps")
async def test_many_projectors_at_once_count_every_event_once(ledger: Ledger) -> None:
    await busy_session(ledger)
    engines = [Engine(ledger.store) for _ in range(6)]
    caught = await asyncio.gather(*(engine.catch_up(SES_1) for engine in engines))
    assert [one.version for one in caught] == [16] * 6
    assert sum(one.events for one in caught) == 16
    found = await queries.totals(ledger.store)
    assert (found.decisions["user_deny"], found.pending, found.streams, found.events) == (5, 5, 1, 16)
    assert await differences(ledger.store) == []


async def test_a_projector_whose_fold_is_old_goes_on_from_where_another_has_come(ledger: Ledger) -> None:
    await busy_session(ledger, 2)
    slow, fast = Engine(ledger.store), Engine(ledger.store)
    await slow.catch_up(SES_1)
    session = await ledger.attach("ses_1")
    await session.submit("bash", ["a"])
    await fast.catch_up(SES_1)
    await session.submit("bash", ["b"])
    assert (await slow.catch_up(SES_1)).events == 1
    assert await differences(ledger.store) == []


async def test_views_that_were_dropped_come_back_byte_for_byte(ledger: Ledger) -> None:
    await busy_session(ledger)
    await ledger.grant_in_project("shop", "bash", "ls", actor="ann")
    engine = Engine(ledger.store)
    await project_all(ledger, engine)
    live = await data_of(ledger.store)
    for partition in range(ledger.store.partition_count):
        await drop_all_views(ledger.store, partition)
    assert await data_of(ledger.store) == {}
    await project_all(ledger, engine)
    assert await data_of(ledger.store) == live


async def test_a_stream_that_a_projector_has_begun_is_not_counted_twice_by_a_rebuild(ledger: Ledger) -> None:
    await busy_session(ledger)
    (short,) = await ledger.store.short_streams([SES_1], 100)
    assert short is not None
    assert (await Engine(ledger.store).begin(SES_1, short))[:3] == (SES_1, 16, 16)
    live = await data_of(ledger.store)
    assert (await Engine(ledger.store).begin(SES_1, short))[:3] == (SES_1, 16, 0)
    assert await data_of(ledger.store) == live
    assert await differences(ledger.store) == []


@pytest.mark.parametrize("count", [1, 16, 17, 18])
async def test_short_and_long_streams_are_rebuilt_alike(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    monkeypatch.setattr(tail, "SHORT_COUNT", count)
    monkeypatch.setattr(tail, "READ_AT_ONCE_COUNT", 1)
    await busy_session(ledger)
    await ledger.grant_in_project("shop", "bash", "ls", actor="ann")
    await project_all(ledger)
    live = await data_of(ledger.store)
    await rebuild_all(ledger.store)
    assert await data_of(ledger.store) == live


async def test_streams_whose_views_lag_are_found_and_no_others(ledger: Ledger) -> None:
    await busy_session(ledger)
    await ledger.session("ses_2")
    await project_all(ledger)
    assert await streams_behind(ledger.store, await streams(ledger.store)) == {}
    await ledger.grant_in_project("shop", "bash", "ls", actor="ann")
    await ledger.session("ses_3")
    found = await streams_behind(ledger.store, await streams(ledger.store))
    assert sorted(found) == [SHOP, StreamKey("session", "ses_3")]
    assert await FedLag(ledger.store).all() == found


# --- what cannot be followed -----------------------------------------------------------------------------------------


async def add(store: Store, payload: bytes) -> None:
    """Append to ses_1 an event that no ledger would write."""
    opening = await store.open(SES_1)
    await written(store, payload, key=SES_1, after=opening.entries[-1].position)


async def newer_event(store: Store) -> bytes:
    last = (await store.open(SES_1)).entries[-1]
    prev = after_entry(last.ms, last.version, last.payload)
    return b'{"v":9,"id":"evt_9","prev":"%s","actor":{"kind":"x","name":"y"},"event":{"type":"new"}}' % prev.encode()


async def test_events_before_a_damaged_one_are_shown_and_the_damage_is_told(ledger: Ledger) -> None:
    await busy_session(ledger)
    await add(ledger.store, b"not an event")
    engine = Engine(ledger.store)
    for _ in range(2):
        with pytest.raises(DamageError, match="version 17"):
            await engine.catch_up(SES_1)
    assert (await whole_views.versions(ledger.store)) == {"session:ses_1": 16}
    assert await differences(ledger.store) == []


async def test_views_wait_before_an_event_of_a_newer_version(ledger: Ledger) -> None:
    await busy_session(ledger)
    await add(ledger.store, await newer_event(ledger.store))
    with pytest.raises(NewerSchemaError, match="upgrade this worker"):
        await Engine(ledger.store).catch_up(SES_1)
    assert (await whole_views.versions(ledger.store)) == {"session:ses_1": 16}


async def test_an_entry_of_others_is_damage(server_store: RedisStore) -> None:
    await server_store.command("XADD", server_store.keys.stream(SES_1), "5-1", "other", "x")
    with pytest.raises(DamageError, match="something else writes to this key"):
        await Engine(server_store).catch_up(SES_1)


async def test_views_that_are_ahead_of_a_stream_are_noticed_and_built_anew(url: str, ledger: Ledger) -> None:
    if url.startswith("memory"):
        return await lost_in_memory(ledger)
    store = as_redis(ledger.store)
    await busy_session(ledger)
    engine = Engine(store)
    await project_all(ledger, engine)
    kept = (await store.open(SES_1)).entries[:4]
    await store.command("DEL", store.keys.stream(SES_1))
    after = append_of().after
    assert await store.restore(SES_1, after, kept, None)
    return await built_anew(ledger, engine)


async def lost_in_memory(ledger: Ledger) -> None:
    await busy_session(ledger)
    engine = Engine(ledger.store)
    await project_all(ledger, engine)
    server: Any = ledger.store._server  # type: ignore[attr-defined]
    del server.streams[SES_1][4:]
    await built_anew(ledger, engine)


async def built_anew(ledger: Ledger, engine: Engine) -> None:
    with pytest.raises(LostHistoryError, match="which its log does not hold"):
        await engine.catch_up(SES_1)
    assert list(await streams_behind(ledger.store, [SES_1])) == [SES_1]
    partition = SES_1.partition(ledger.store.partition_count)
    keys = [key for key in await streams(ledger.store) if key.partition(ledger.store.partition_count) == partition]
    assert await project_anew(ledger.store, engine, partition, keys) == []
    assert (await whole_views.pending_of(ledger.store, "ses_1")).as_of == {"session:ses_1": 4}
    assert (await queries.totals(ledger.store)).decisions["user_deny"] == 0
    assert await differences(ledger.store) == []


@pytest.mark.parametrize("broken", [b"lies", b"", b"\xff", b"5", b"-1-0", b"99999999999999999999-1"])
async def test_views_with_a_broken_checkpoint_are_found_and_built_anew(ledger: Ledger, broken: bytes) -> None:
    await busy_session(ledger)
    await project_all(ledger)
    store, before = ledger.store, await data_of(ledger.store)
    at = await checkpoint(store, SES_1)
    assert await project(store, SES_1, at, at, [ViewWrite(CHECKPOINTS_VIEW, SES_1.name, broken)])
    assert await differences(store) != []
    assert list(await streams_behind(store, [SES_1])) == [SES_1]
    await CatchingUp(ledger).catch_up_all([SES_1])
    assert await data_of(store) == before
    assert await differences(store) == []


async def test_short_streams_of_a_partition_are_rebuilt_in_one_write(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition, keys = await _neighbours(ledger, 3)
    await project_all(ledger)
    before, written = await data_of(ledger.store), 0

    async def counting(*arguments: Any) -> bool:
        nonlocal written
        written += 1
        return await project_together(*arguments)

    project_together = ledger.store.project
    monkeypatch.setattr(ledger.store, "project", counting)
    assert await project_anew(ledger.store, Engine(ledger.store), partition, keys) == []
    assert (written, await data_of(ledger.store)) == (1, before)


async def test_a_projector_that_is_first_does_not_make_a_rebuild_count_twice(ledger: Ledger) -> None:
    partition, keys = await _neighbours(ledger, 3)
    await project_all(ledger)
    before, other = await data_of(ledger.store), Engine(ledger.store)

    async def first(key: StreamKey, _: Sequence[Seen]) -> None:
        if key == keys[2]:
            await other.catch_up(keys[0])

    engine, caught = Engine(ledger.store, before_step=first), list[CaughtUp]()
    assert await project_anew(ledger.store, engine, partition, keys, done=caught.append) == []
    assert [one.version for one in caught] == [2, 2, 2]
    assert await data_of(ledger.store) == before


async def _neighbours(ledger: Ledger, count: int) -> tuple[int, list[StreamKey]]:
    """Open sessions of one partition, each with a pending request."""
    keys = [StreamKey("session", f"near_{number}") for number in range(count * 2 * ledger.store.partition_count)]
    partition = keys[0].partition(ledger.store.partition_count)
    some = [key for key in keys if key.partition(ledger.store.partition_count) == partition][:count]
    for key in some:
        await (await ledger.session(key.id)).submit("bash", ["ls"])
    return partition, some


# --- what a comparison finds -----------------------------------------------------------------------------------------


async def test_a_comparison_names_the_fields_that_differ_and_changes_nothing(ledger: Ledger) -> None:
    await busy_session(ledger)
    await project_all(ledger)
    store, partition = ledger.store, SES_1.partition(ledger.store.partition_count)
    planted = [
        ViewWrite("pending", "ses_1\nr1", None),
        ViewWrite("counts", "decision\nuser_deny", 1, "count"),
        ViewWrite("timeline:ses_1", "99", b"{}"),
        ViewWrite(SESSIONS_VIEW, "ses_1", b"other"),
    ]
    at = await checkpoint(store, SES_1)
    assert at.version == 16
    assert await project(store, SES_1, at, at, planted)
    before = await data_of(store)
    found = [(one.view, one.as_json()["key"], one.partition) for one in await differences(store)]
    assert sorted(found) == sorted(
        [
            ("pending", "ses_1 r1", partition),
            ("counts", "decision user_deny", partition),
            ("timeline:ses_1", "", partition),
            (SESSIONS_VIEW, "ses_1", partition),
        ]
    )
    of_view = {one.view: one.as_json()["difference"] for one in await differences(store)}
    summary = of_view[SESSIONS_VIEW]
    assert (summary["live"], summary["rebuilt"]["project"]) == ("other", "shop")
    counts = next(one for one in await differences(store) if one.view == "counts")
    assert counts.as_json() == {
        "view": "counts",
        "key": "decision user_deny",
        "same": False,
        "difference": {"live": 6, "rebuilt": 5},
        "partition": partition,
    }
    assert await data_of(store) == before
