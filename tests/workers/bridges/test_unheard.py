"""Messages that an agent's protocol cannot carry: their writer gets a note."""

from __future__ import annotations

import pytest

from tests.support.command_line import CommandLine
from tests.support.gateways import Person, RunningGateway
from workers.transport.gateway_client import GatewayClient

NOTE = "the agent will not see these words"


@pytest.mark.parametrize("hears", [True, False])
async def test_who_answers_over_http_or_at_the_terminal_is_told(
    gateway: RunningGateway, ann: Person, hears: bool
) -> None:
    metadata = {} if hears else {"hears_no_words": True}
    async with GatewayClient(gateway.agent_place) as client:
        for session in ("s1", "s2"):
            await client.open_session(session)
            body = {"request_id": f"r_{session}", "permission": "bash", "patterns": ["ls"], "metadata": metadata}
            await client.submit(session, body)
    row = await ann.reply("s1", "r_s1", "reject", message="not today")
    assert (row["note"] is None) is hears
    assert hears or NOTE in row["note"]
    ran = CommandLine(gateway.server.url)("reply", "r_s2", "reject", "--message", "not today", code=0)
    assert (NOTE in ran.err) is not hears
