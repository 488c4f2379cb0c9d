"""The presence of an asker that waits over HTTP: shown in views, without effect on decisions."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from tests.support.command_line import CommandLine
from tests.support.gateways import Person, RunningGateway
from tests.support.waiting import wait_until_async
from workers.transport.gateway_client import GatewayClient

GONE_S = 40


async def gone_at(ann: Person, request_id: str) -> str | None:
    [row] = [one for one in await ann.pending("s") if one["request_id"] == request_id]
    at: str | None = row["asker_gone_at"]
    return at


@pytest.mark.slow
async def test_an_asker_whose_connection_ended_is_shown_as_gone_until_it_comes_again(
    gateway: RunningGateway, ann: Person
) -> None:
    def asking(client: GatewayClient) -> asyncio.Task[Any]:
        body = {"request_id": "r1", "permission": "bash", "patterns": ["git push"]}
        return asyncio.create_task(client.submit("s", body, wait=55))

    async with GatewayClient(gateway.agent_place) as other:
        await other.open_session("s")
        await other.submit("s", {"request_id": "r2", "permission": "bash", "patterns": ["ls"]})
    async with GatewayClient(gateway.agent_place) as client:
        waiting = asking(client)
        await ann.waiting("s", 2)
        assert await gone_at(ann, "r1") is None
        waiting.cancel()
        with suppress(asyncio.CancelledError):
            await waiting
    await wait_until_async(lambda: gone_at(ann, "r1"), "the asker to be gone", GONE_S)
    assert await gone_at(ann, "r2") is None, "nobody ever waited for it"
    listed = CommandLine(gateway.server.url)("pending", "--session", "s", "--json", code=0).rows
    assert {row["request_id"]: row["asker_gone_at"] is not None for row in listed} == {"r1": True, "r2": False}
    assert "gone since" in CommandLine(gateway.server.url)("pending", "--session", "s", code=0).out
    assert {row["type"] for row in await ann.events("s")} == {"session_opened", "asked"}, "no event tells of it"
    async with GatewayClient(gateway.agent_place) as client:
        waiting = asking(client)

        async def is_back() -> bool:
            return await gone_at(ann, "r1") is None

        await wait_until_async(is_back, "the asker to be back", GONE_S)
        await ann.reply("s", "r1", "once")
        assert (await waiting)["outcome"] == "allowed"
