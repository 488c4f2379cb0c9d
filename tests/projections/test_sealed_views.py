"""The views of a sealed session stay, and a projector that is told of one breaks nothing."""

from __future__ import annotations

import pytest

from ledger import Ledger
from ledger.log.verify import head_of
from ledger.stores.port import SKIPPED, StreamKey
from ledger.stores.sealed import Seal
from ledger.stores.store import Store
from projections.engine import STREAMS_AT_ONCE_COUNT, CaughtUp, Engine
from tests.projections.looking import RULES, data_of, streams
from tests.support.backends import log_of
from tests.support.store_calls import view
from workers.projector import CatchingUp

SES_1 = StreamKey("session", "ses_1")


async def sealed(ledger: Ledger) -> Seal:
    head = head_of((await log_of(ledger.store, SES_1))[-1])
    seal = Seal(head.position, head.hash, "f.jsonl.zst", head.position.ms)
    assert await ledger.store.seal(SES_1, seal)
    return seal


async def session_of(ledger: Ledger) -> None:
    session = await ledger.session("ses_1", rules=RULES)
    await session.submit("bash", ["git log"], request_id="r1")
    await session.reply("r1", "reject", actor="ann")


async def skipped(store: Store) -> list[str]:
    return [name for one in range(store.partition_count) for name in await view(store, SKIPPED, one)]


async def test_the_views_of_a_session_stay_when_it_is_sealed(ledger: Ledger) -> None:
    await session_of(ledger)
    projector = CatchingUp(ledger)
    await projector.catch_up_all(await streams(ledger.store))
    before = await data_of(ledger.store)
    await sealed(ledger)
    for one in (projector, CatchingUp(ledger)):
        assert await one.catch_up_all([SES_1]) == [SES_1]
    assert await data_of(ledger.store) == before
    assert await skipped(ledger.store) == []


async def test_a_session_that_was_sealed_before_it_was_projected_is_named(
    ledger: Ledger, caplog: pytest.LogCaptureFixture
) -> None:
    await session_of(ledger)
    await sealed(ledger)
    assert await CatchingUp(ledger).catch_up_all([SES_1]) == [SES_1]
    assert await skipped(ledger.store) == ["session:ses_1"]
    assert "skipped: " in caplog.text


async def test_of_many_streams_a_sealed_one_whose_views_are_as_of_its_head_is_not_read_again(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    await session_of(ledger)
    await CatchingUp(ledger).catch_up_all(await streams(ledger.store))
    await sealed(ledger)
    others = [StreamKey("session", f"live_{number}") for number in range(STREAMS_AT_ONCE_COUNT)]
    for key in others:
        await (await ledger.session(key.id, rules=RULES)).submit("bash", ["git log"])
    read: list[StreamKey] = []
    catch_up = Engine.catch_up

    async def reading(engine: Engine, key: StreamKey) -> CaughtUp:
        read.append(key)
        return await catch_up(engine, key)

    monkeypatch.setattr(Engine, "catch_up", reading)
    assert await CatchingUp(ledger).catch_up_all([SES_1, *others]) == [SES_1, *others]
    assert read == others
    assert await skipped(ledger.store) == []


async def test_of_many_streams_a_sealed_one_that_was_not_projected_is_named(ledger: Ledger) -> None:
    await session_of(ledger)
    await sealed(ledger)
    others = [StreamKey("session", f"live_{number}") for number in range(STREAMS_AT_ONCE_COUNT)]
    await CatchingUp(ledger).catch_up_all([SES_1, *others])
    assert await skipped(ledger.store) == ["session:ses_1"]
