"""A runner that is killed between its claim and the word that it may run: it claims again, and nobody else does."""

from __future__ import annotations

from typing import Final

import pytest

from ledger import AlreadyClaimedError, Ledger, Runner
from ledger.log.tail import read_events
from ledger.stores.port import StreamKey
from tests.support.processes import next_line, python
from tests.support.servers import RealServer

CLAIMS_AND_IS_NEVER_TOLD: Final = """
import asyncio, sys
from ledger import Ledger, Runner
from ledger.log.stream import Stream

async def main(url):
    async with Ledger.connect(url, entry_points=False) as ledger:
        session = await ledger.attach("ses_1")
        await session.state()
        finish = Stream._finish
        def finished(self, batch):
            if batch.written_at is None:
                finish(self, batch)
            else:
                print("written", flush=True)
        Stream._finish = finished
        await session.claim("call_1", runner=Runner("claude", "call_1"))
        print("told", flush=True)

asyncio.run(main(sys.argv[1]))
"""
"""The claim is in the log, and the process that made it never learns of it."""

RULES: Final = [{"permission": "bash", "pattern": "*", "action": "allow"}]


@pytest.mark.parametrize("how", ["claims the request", "asks again"])
async def test_a_runner_killed_before_it_was_told_claims_again_and_no_other_may(server: RealServer, how: str) -> None:
    async with Ledger.connect(server.url, entry_points=False) as ledger:
        session = await ledger.session("ses_1", rules=RULES)
        await session.submit("bash", ["make"], request_id="call_1")
        with python(CLAIMS_AND_IS_NEVER_TOLD, server.url) as runner:
            assert next_line(runner) == "written"
            runner.kill()
        with pytest.raises(AlreadyClaimedError):
            await session.claim("call_1", runner=Runner("worker-2", "call_1"))
        again = Runner("claude", "call_1")
        if how == "claims the request":
            assert (await session.claim("call_1", runner=again)).runner == "claude"
        else:
            assert (await session.ask("bash", ["make"], request_id="call_1", claim=again)).allowed
        records = [one.event async for one in read_events(ledger.store, StreamKey("session", "ses_1"))]
        assert [type(one).__name__ for one in records] == ["SessionOpened", "Asked", "Claimed"]
