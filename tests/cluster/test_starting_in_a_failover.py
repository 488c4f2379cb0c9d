"""Processes that start while a primary is down wait for its successor, as commands do."""

from __future__ import annotations

import pytest

from ledger import Ledger
from tests.cluster.conftest import OpenLedger
from tests.support.askers import ALLOW
from tests.support.clusters import Cluster, Sentinels

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


async def asks(ledger: Ledger) -> None:
    session = await ledger.session("ses_1", rules=ALLOW)
    assert (await session.ask("bash", ["make"])).outcome == "allowed"


async def test_a_process_that_starts_while_a_primary_is_down_waits_for_its_heir(
    mortal: Cluster, open_ledger: OpenLedger, caplog: pytest.LogCaptureFixture
) -> None:
    await asks(await open_ledger(mortal.url))
    mortal.primary_of("pl:config").kill9()
    await asks(await open_ledger(mortal.url))
    assert "waiting up to 10 s for it" in caplog.text


async def test_a_process_that_starts_while_sentinels_choose_a_primary_waits_for_it(
    shared_sentinels: Sentinels, open_ledger: OpenLedger, caplog: pytest.LogCaptureFixture
) -> None:
    shared_sentinels.mend()
    await asks(await open_ledger(shared_sentinels.url))
    shared_sentinels.wait_until_in_step()
    shared_sentinels.primary().kill9()
    await asks(await open_ledger(shared_sentinels.url))
    assert "waiting up to 10 s for it" in caplog.text
