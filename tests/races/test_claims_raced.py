"""Four processes claim the same calls at once, under equal and under different names: each call has one runner.

Meanwhile claimers and the server are killed with signal 9, everything is frozen for a while, and the rules change.
`PERMISSION_LEDGER_TEST_CLAIMS=1000000` makes it a million claims, which takes ten times as long.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ledger import Ledger
from tests.races.contest import ALLOWING, CLAIMERS_COUNT, CLAIMS_COUNT, DENYING, Contest
from tests.support.servers import RealServer

if TYPE_CHECKING:
    from tests.support.servers import StartServer


@pytest.mark.slow
@pytest.mark.timeout(240 + CLAIMS_COUNT // 200)
async def test_contested_claims_have_one_winner_each_whoever_is_killed(
    start_server: StartServer, tmp_path: Path
) -> None:
    server: RealServer = start_server()

    async def kill_the_server(_: Contest) -> None:
        server.kill9()
        await asyncio.to_thread(server.start)

    async with Ledger.connect(server.url, entry_points=False) as ledger:
        contest = Contest(ledger, server.url, tmp_path)
        await contest.play(
            (
                Contest.kill_a_claimer,
                kill_the_server,
                Contest.freeze,
                lambda one: one.enact(DENYING),
                Contest.kill_a_claimer,
                lambda one: one.freeze(kill_the_server),
                lambda one: one.enact(ALLOWING),
                kill_the_server,
                lambda one: one.freeze(Contest.kill_a_claimer),
                Contest.kill_a_claimer,
            )
        )
        won = await contest.check(ledger)
    # It was a race, also for those that were killed, and the new rules denied some calls.
    names = {f"claimer-{number}" for number in range(CLAIMERS_COUNT)}
    assert set(won) == {"all", "pair-0", "pair-1", "nobody", *names}
