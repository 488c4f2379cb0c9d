"""Very much of everything: the page stays as quick as with little."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from playwright.async_api import Page, expect

from tests.gateway.inbox.visitors import Inbox

PENDING_COUNT = 5000
SESSIONS_COUNT = 50
EVENTS_COUNT = 5000
SCROLL_MS = 10_000
WARM_UP_MS = 500
FRAME_MS_MAX = 100

# Scrolls for a while, faster and faster and back, and gives the longest time between two frames.
SCROLL = """async (duration) => {
  const frames = [];
  const begun = performance.now();
  let last = begun;
  let y = scrollY;
  await new Promise((done) => requestAnimationFrame(function next(now) {
    frames.push(now - last);
    last = now;
    const share = (now - begun) / duration;
    y += 40 + 400 * share;
    scrollTo(0, y % Math.max(1, document.documentElement.scrollHeight - innerHeight));
    if (share < 1) requestAnimationFrame(next); else done();
  }));
  frames.shift();
  return {longest: Math.max(...frames), frames: frames.length, items: document.querySelectorAll('[data-key]').length};
}"""


async def scrolled(page: Page, scroll_ms: int = SCROLL_MS) -> tuple[dict[str, Any], float]:
    """What was measured, the best of three, and the longest frame that is let pass.

    A machine that does other work too lets any page wait for its turn: what it makes of an empty one is measured first.
    """
    empty = await page.context.new_page()
    await empty.set_content("<div style='height: 1000000px'></div>")
    await page.evaluate(SCROLL, WARM_UP_MS)
    measured, most = {}, 0.0
    for _ in range(3):
        idle = await empty.evaluate(SCROLL, scroll_ms // 3)
        most = max(FRAME_MS_MAX, 2 * idle["longest"])
        measured = await page.evaluate(SCROLL, scroll_ms)
        if measured["longest"] < most:
            break
    await empty.close()
    return measured, most


@pytest.mark.timeout(120)
async def test_five_thousand_pending_scroll_without_a_slow_frame(inbox: Inbox) -> None:
    sessions = [await inbox.session(f"ses_{index}") for index in range(SESSIONS_COUNT)]
    await asyncio.gather(
        *(
            session.submit("bash", [f"git push origin branch-{index}"], always=["git push *"])
            for session in sessions
            for index in range(PENDING_COUNT // SESSIONS_COUNT)
        )
    )
    ann = await inbox.visit("eve", role="auditor")
    await expect(ann.page.locator(".summary")).to_contain_text(f"{PENDING_COUNT}", timeout=30_000)
    measured, most = await scrolled(ann.page)
    assert measured["longest"] < most
    assert measured["items"] < 60


@pytest.mark.timeout(120)
async def test_a_long_session_scrolls_without_a_slow_frame_and_any_moment_is_near(inbox: Inbox) -> None:
    session = await inbox.session("ses_long")
    await asyncio.gather(*(session.submit("bash", [f"ls src/{index}"]) for index in range(EVENTS_COUNT - 1)))
    await inbox.project()
    eve = await inbox.visit("eve", "/sessions/ses_long", role="auditor")
    await expect(eve.page.locator(".moment-label")).to_have_text(f"Now, after {EVENTS_COUNT} events")
    measured, most = await scrolled(eve.page, SCROLL_MS // 2)
    assert measured["longest"] < most
    assert measured["items"] < 80
    await eve.page.get_by_role("slider").fill("2500")
    await expect(eve.page.locator(".event-body[aria-pressed=true]")).to_contain_text("asked for bash `ls src/")
    await expect(eve.page.locator(".moment")).to_contain_text("Settled by then: 2499 allowed.")
