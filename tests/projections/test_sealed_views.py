"""The views of a sealed session stay, and a projector that is told of one breaks nothing."""

from __future__ import annotations

import pytest

from ledger import Ledger
from ledger.log.verify import head_of
from ledger.stores.admin import SKIPPED
from ledger.stores.port import Store, StreamKey
from ledger.stores.sealed import Seal
from tests.projections.looking import RULES, data_of, streams
from tests.support.backends import log_of
from workers.projector.worker import CatchingUp

SES_1 = StreamKey("session", "ses_1")


async def sealed(ledger: Ledger) -> Seal:
    head = head_of((await log_of(ledger.store, SES_1))[-1])
    seal = Seal(head.position, head.hash, "f.parquet", head.position.ms)
    assert await ledger.store.admin.seal(SES_1, seal)
    return seal


async def session_of(ledger: Ledger) -> None:
    session = await ledger.session("ses_1", rules=RULES)
    await session.submit("bash", ["git log"], request_id="r1")
    await session.reply("r1", "reject", actor="ann")


async def skipped(store: Store) -> list[str]:
    return [name for one in range(store.partition_count) for name in await store.view(SKIPPED, one)]


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
