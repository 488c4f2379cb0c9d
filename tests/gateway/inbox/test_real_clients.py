"""The inbox with one session of each real client waiting, as recorded: a card each, and each answered by its own card."""

from __future__ import annotations

import asyncio
import re
from typing import Final

import pytest
from playwright.async_api import Locator, expect

from tests.gateway.inbox.visitors import LABELS, Inbox, Visitor
from tests.support.command_line import ROOT, CommandLine
from tests.support.servers import RealServer

RECORD: Final = ROOT / "tests" / "data" / "agents" / "together-waiting.jsonl"

CARDS: Final = {
    "claude-code": ("Write", "assert total([0.1, 0.2]) == 0.3", "once"),
    "gemini": ("bash", "rm -r build", "once"),
    "codex": ("edit", "return round(sum(prices), 2)", "session"),
    "codelia": ("bash", "git commit -q -m", "always"),
    "python": ("bash", "python -m compileall -q prices.py", "once"),
    "build": ("bash", "git tag v1.4.0", "always"),
}
"""By what the agent calls itself (OpenCode's is `build`): permission, content of its card, and the reply."""

TALL: Final = {"width": 1200, "height": 6000}
"""All cards are on the screen as a whole, so that all can be allowed."""


def card_of(visitor: Visitor, agent: str, permission: str) -> Locator:
    """Return the card of an agent; which token asked was the machine's affair that was recorded."""
    name = re.compile(f"^{permission} asked by .*, calls itself {agent}$")
    return visitor.page.get_by_role("article", name=name)


def row_of(visitor: Visitor, agent: str) -> Locator:
    return visitor.page.locator(".entry", has=visitor.page.locator(".who", has_text=re.compile(f"{agent}$")))


@pytest.fixture(autouse=True)
def record(server: RealServer) -> None:
    CommandLine(server.url)("import", RECORD, "--with-grants", code=0)


async def test_each_client_has_a_card_that_says_who_asks_for_what_and_where(inbox: Inbox) -> None:
    ann = await inbox.visit("ann", viewport=TALL)
    await expect(ann.page.locator(".entry")).to_have_count(len(CARDS))
    for agent, (permission, shown, _) in CARDS.items():
        await row_of(ann, agent).locator("a").click()
        card = card_of(ann, agent, permission)
        await expect(card).to_contain_text(shown)
        await expect(card.locator(".place")).to_have_text("/srv/shop · shop")


async def test_each_is_answered_once_on_its_own_card_and_then_nothing_waits(inbox: Inbox) -> None:
    ann = await inbox.visit("ann", viewport=TALL)
    for agent, (permission, _, reply) in CARDS.items():
        await row_of(ann, agent).locator("a").click()
        card = card_of(ann, agent, permission)
        for button in ([] if reply == "once" else ["Remember…"]) + [LABELS[reply]]:
            await expect(card).to_have_attribute("data-armed", "")
            await ann.press_on(card, button, by_key=True)
        await expect(row_of(ann, agent)).to_contain_text(f"Allowed by you ({reply})")
    await expect(ann.page.locator(".lines li")).to_have_count(len(CARDS))
    assert await inbox.ledger.pending() == []
    replies = await asyncio.gather(*[_replies(inbox, name) async for name in inbox.ledger.sessions()])
    assert sorted(reply for one in replies for reply in one) == sorted(row[2] for row in CARDS.values())


async def _replies(inbox: Inbox, session: str) -> list[str]:
    events = (await inbox.ledger.attach(session)).events(follow_on=False)
    return [event.as_json()["event"]["reply"] async for event in events if event.type == "replied"]
