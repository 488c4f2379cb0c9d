"""Content that is redacted leaves the memory of the gateway too: a reader that comes back is not sent it."""

from __future__ import annotations

import json

from ledger import Ledger
from tests.gateway.callers import Caller
from tests.gateway.events.listening import listening

SECRET = "deploy hunter-two"


async def test_a_reader_that_comes_back_is_sent_nothing_that_was_redacted(admin_caller: Caller, ledger: Ledger) -> None:
    await admin_caller.put("/v1/sessions/ses_1", {})
    async with listening(admin_caller, "/v1/events") as reader:
        begun = (await reader.named("snapshot.end"))[-1].last_id
        await admin_caller.ask("ses_1", SECRET, request_id="r1")
        assert SECRET in json.dumps([one.data for one in await reader.named("permission.asked")])
        for plan in await ledger.redactions.plan("ses_1", [2]):
            await ledger.redactions.redact(plan, reason="a password", actor="ann")
        await reader.named("session.redacted")
    async with listening(admin_caller, "/v1/events", begun) as again:
        told = await again.named("snapshot.end")
    assert told[0].name == "resync"
    assert SECRET not in json.dumps([one.data for one in told])
