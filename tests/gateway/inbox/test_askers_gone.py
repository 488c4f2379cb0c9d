"""The inbox and the request page for a request whose asker has disconnected."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from playwright.async_api import expect

from tests.gateway.inbox.visitors import Inbox
from workers.transport.gateway_client import GatewayClient
from workers.transport.place import parse_place

GONE_MS = 40_000


async def test_a_card_says_since_when_nobody_waits_for_its_answer(inbox: Inbox) -> None:
    await inbox.session()
    token = (await inbox.ledger.tokens.create("worker", "agent", sessions=["ses_1"])).text
    ann = await inbox.visit("ann")
    body = {"request_id": "r1", "permission": "bash", "patterns": ["git push"], "metadata": {"command": "git push"}}
    async with GatewayClient(lambda: parse_place(inbox.url, token)) as client:
        waiting = asyncio.create_task(client.submit("ses_1", body, wait=55))
        mark = ann.card("git push").locator(".gone")
        await expect(mark).to_be_hidden()
        waiting.cancel()
        with suppress(asyncio.CancelledError):
            await waiting
        await expect(mark).to_contain_text("Asker gone since", timeout=GONE_MS)
        again = asyncio.create_task(client.submit("ses_1", body, wait=55))
        await expect(mark).to_be_hidden(timeout=GONE_MS)
        await ann.press("git push", "Allow once")
        assert (await again)["outcome"] == "allowed"


async def test_who_rejects_with_words_is_told_where_the_agent_will_not_see_them(inbox: Inbox) -> None:
    session = await inbox.session()
    await session.submit("bash", ["git push"], metadata={"command": "git push", "hears_no_words": True})
    await session.submit("bash", ["git tag"], metadata={"command": "git tag"})
    ann = await inbox.visit("ann")
    for text, said in (
        ("git push", "The agent will not see these instructions"),
        ("git tag", "The agent reads this and continues"),
    ):
        await ann.press(text, "Reject…")
        await ann.card(text).locator("textarea").fill("not today")
        await expect(ann.card(text).locator(".form .granting")).to_contain_text(said)
