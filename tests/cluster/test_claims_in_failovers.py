"""Contested claims while sentinels replace the primary: no claim is lost, and none is given twice."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from ledger import Durability
from tests.cluster.conftest import OpenLedger
from tests.races.contest import CLAIMS_COUNT, Contest
from tests.support.clusters import FAILOVER_S, Sentinels
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

SHARE: Final = 20
"""One claim in this many of the contest on a single server: each waits for the replica."""


def replace_the_primary(sentinels: Sentinels) -> None:
    """Kill the primary with signal 9, and bring it back as the replica of its heir."""
    before = sentinels.primary()
    before.kill9()
    wait_until(lambda: sentinels.primary() is not before, "the failover", FAILOVER_S)
    sentinels.mend()


@pytest.mark.timeout(240 + CLAIMS_COUNT // SHARE // 50)
async def test_contested_claims_have_one_winner_each_through_failovers(
    shared_sentinels: Sentinels, open_ledger: OpenLedger, tmp_path: Path
) -> None:
    shared_sentinels.mend()
    ledger = await open_ledger(shared_sentinels.url, Durability(wait_replicas=1))

    async def fail_over(_: Contest) -> None:
        await asyncio.to_thread(partial(replace_the_primary, shared_sentinels))

    contest = Contest(ledger, f"{shared_sentinels.url}?wait_replicas=1", tmp_path, CLAIMS_COUNT // SHARE)
    await contest.play((fail_over, Contest.freeze, Contest.kill_a_claimer, fail_over))
    await contest.check(ledger, loses_unconfirmed=True)
