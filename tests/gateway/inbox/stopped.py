"""A page with a stopped clock that a test advances, independent of the speed of this machine."""

from __future__ import annotations

from playwright.async_api import Locator, expect

from tests.gateway.inbox.visitors import Inbox, Visitor
from tests.support.waiting import wait_until_async

FRAME_MS = 20
AHEAD_S = 30
"""A page's time can be stopped at a moment to come only; it jumps there."""
STEADY_MS = 500
"""Time a card must stand still before it takes answers; the page's own constant."""


async def visit_stopped(
    inbox: Inbox, name: str, path: str = "/", *, cards: int, height: int = 1600, is_whole: bool = True
) -> Visitor:
    """Open a page with so many requests, and stop its time; the open one takes an answer, unless it is not whole on the screen."""
    visitor = await inbox.visit(name, None, viewport={"width": 1200, "height": height})
    await visitor.page.clock.install()
    await visitor.go(path)
    await expect(visitor.page.locator(".entry")).to_have_count(cards)
    await expect(
        visitor.page.locator("article.card[data-armed]" if is_whole else "article.card[data-steady]")
    ).to_have_count(1)
    await expect(visitor.page.locator(".deck[data-quiet]")).to_have_count(1)
    await visitor.page.clock.pause_at(await visitor.page.evaluate("Date.now()") / 1000 + AHEAD_S)
    return visitor


async def passes(visitor: Visitor, ms: int) -> None:
    """Let this much time pass on the page."""
    await visitor.page.clock.run_for(ms)


async def comes(visitor: Visitor, item: Locator) -> None:
    """Let no more time pass than one frame after the item is on the page."""

    async def is_there() -> bool:
        await passes(visitor, FRAME_MS)
        return await item.count() > 0

    await wait_until_async(is_there, f"the page to show {item}")
