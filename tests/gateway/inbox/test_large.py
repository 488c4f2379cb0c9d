"""Very much of everything: the page stays as quick as with little."""

from __future__ import annotations

import asyncio
import os
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

# Scrolls for a while, faster and faster and back, and gives the longest time between two frames, and of 99 in 100.
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
  const sorted = frames.toSorted((a, b) => a - b);
  return {longest: sorted.at(-1), most: sorted[Math.floor(sorted.length * 0.99)], frames: frames.length, items: document.querySelectorAll('[data-key]').length};
}"""


async def scrolled(page: Page, scroll_ms: int) -> dict[str, Any]:
    """What was measured; the best of three.

    Where more programs want to run than there are processors, any page waits for its turn now and then, an empty one
    too: there the slowest frame of a hundred is left out.
    """
    await expect(page.locator("#connection")).to_have_text("live", timeout=30_000)
    await page.evaluate(SCROLL, WARM_UP_MS)
    measured: dict[str, Any] = {}
    for _ in range(3):
        measured = await page.evaluate(SCROLL, scroll_ms)
        is_crowded = os.getloadavg()[0] > (os.cpu_count() or 1)
        measured["slowest"] = measured["most"] if is_crowded else measured["longest"]
        if measured["slowest"] < FRAME_MS_MAX:
            break
    return measured


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
    measured = await scrolled(ann.page, SCROLL_MS)
    assert measured["slowest"] < FRAME_MS_MAX
    assert measured["items"] < 60


@pytest.mark.timeout(120)
async def test_a_long_session_scrolls_without_a_slow_frame_and_any_moment_is_near(inbox: Inbox) -> None:
    session = await inbox.session("ses_long")
    await asyncio.gather(*(session.submit("bash", [f"ls src/{index}"]) for index in range(EVENTS_COUNT - 1)))
    await inbox.project()
    eve = await inbox.visit("eve", "/sessions/ses_long", role="auditor")
    await expect(eve.page.locator(".moment-label")).to_have_text(f"Now, after {EVENTS_COUNT} events")
    measured = await scrolled(eve.page, SCROLL_MS // 2)
    assert measured["slowest"] < FRAME_MS_MAX
    assert measured["items"] < 80
    await eve.page.get_by_role("slider").fill("2500")
    await expect(eve.page.locator(".event-body[aria-pressed=true]")).to_contain_text("asked for bash `ls src/")
    await expect(eve.page.locator(".moment")).to_contain_text("Settled by then: 2499 allowed.")
