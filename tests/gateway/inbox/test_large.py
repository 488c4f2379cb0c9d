"""Very much of everything: the page stays as quick as with little."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from playwright.async_api import Page, expect

from tests.gateway.inbox.visitors import Inbox

PENDING_COUNT = 5000
SESSIONS_COUNT = 50
EVENTS_COUNT = 50_000
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


async def scrolled(page: Page) -> dict[str, Any]:
    """The best of three: on a machine that does other work too, a frame may wait for its turn."""
    await page.evaluate(SCROLL, WARM_UP_MS)
    measured: dict[str, Any] = {}
    for _ in range(3):
        measured = await page.evaluate(SCROLL, SCROLL_MS)
        if measured["longest"] < FRAME_MS_MAX:
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
    measured = await scrolled(ann.page)
    assert measured["longest"] < FRAME_MS_MAX
    assert measured["items"] < 60
