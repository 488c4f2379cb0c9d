"""The pages for everybody: with a screen reader, in the dark, on a narrow phone; and presence only while it is true."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.async_api import Page, expect

from tests.gateway.inbox.barriers import barriers
from tests.gateway.inbox.visitors import Inbox
from tests.support.waiting import wait_until_async

PHONE: dict[str, Any] = {"viewport": {"width": 320, "height": 640}, "has_touch": True, "is_mobile": True}
SCROLL_TO = """async (button) => {
  scrollTo(0, 0);
  const frame = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  await frame();
  while (button.getBoundingClientRect().bottom > innerHeight) { scrollBy(0, 120); await frame(); }
}"""
PLACES = ("/", "/sessions", "/sessions/ses_1#2", "/requests/r1", "/grants", "/account", "/notifications")


async def seed(inbox: Inbox) -> None:
    session = await inbox.session(cwd="/srv/shop")
    command = "git status && git push origin main --force-with-lease " + "x" * 90
    await session.submit("bash", [command], always=["git push *"], request_id="r1")
    await session.submit("bash", ["curl p\u0430ypal.example\u202e"], request_id="r2")
    await session.submit("edit", ["a.py"], metadata={"filepath": "a.py", "diff": "--- a\n+++ b\n-old\n+new"})
    await session.submit("bash", ["ls"])
    await inbox.ledger.grant_in_project("shop", "bash", "npm *", reason="tests", actor="ann")
    await inbox.project()


@pytest.mark.parametrize("colours", ["light", "dark"])
async def test_no_page_has_a_serious_barrier(inbox: Inbox, colours: Any) -> None:
    await seed(inbox)
    ann = await inbox.visit("ann", role="admin", color_scheme=colours)
    found: list[str] = []
    for place in PLACES:
        await ann.go(place)
        await settled(ann.page)
        found += [f"{place}: {one}" for one in await barriers(ann.page)]
    await ann.go()
    for name in ("Reject…", "?"):
        await ann.page.get_by_role("button", name=name if name != "?" else "Keys").first.click()
        found += [f"after {name}: {one}" for one in await barriers(ann.page)]
    stranger = await inbox.stranger()
    await stranger.go()
    await expect(stranger.page.get_by_label("Your token")).to_be_visible()
    found += [f"signing in: {one}" for one in await barriers(stranger.page)]
    assert found == []


async def settled(page: Page) -> None:
    await expect(
        page.locator("article.card:visible, .entry:visible, .session-row, .event-body, .grant, .notifying").first
    ).to_be_visible()


async def test_on_a_narrow_phone_nothing_is_cut_off_and_answering_takes_one_tap(inbox: Inbox) -> None:
    await seed(inbox)
    ann = await inbox.visit("ann", role="admin", **PHONE)
    for place in PLACES:
        await ann.go(place)
        await settled(ann.page)
        assert await ann.page.evaluate("document.documentElement.scrollWidth") <= 320, place
    await ann.go()
    await ann.open("git status")
    once = ann.card("git status").get_by_role("button", name="Allow once")
    box = await once.bounding_box()
    assert box
    assert box["height"] >= 44
    # As a thumb does: nothing can be allowed before all of it was on the screen.
    await once.evaluate(SCROLL_TO)
    await once.tap()
    await ann.page.get_by_role("button", name="List").click()
    await expect(ann.row("git status")).to_contain_text("Allowed by you (once)")


# What a finger reaches of each control that is wholly on the screen: from the middle of it up and down.
SMALL = """() => {
  const found = [];
  const top = document.getElementById("top").getBoundingClientRect().bottom;
  for (const one of document.querySelectorAll("a, button, select, textarea, input, summary")) {
    const target = one.matches("input[type=radio], input[type=checkbox]") ? (one.closest("label") ?? one) : one;
    const box = target.getClientRects()[0];
    if (!box || box.width < 2 || box.bottom > innerHeight - 30 || (box.top < top + 30 && !one.closest("#top"))) continue;
    const x = box.left + Math.min(box.width / 2, 60);
    const isHit = (y) => {
      const hit = document.elementFromPoint(x, y);
      return hit !== null && (target.contains(hit) || hit.contains(target) && hit.closest("a, button, label") === target);
    };
    const middle = (Math.max(0, box.top) + box.bottom) / 2;
    // What is high enough may be half behind something that stays on the screen.
    if (!isHit(middle) || target.getBoundingClientRect().height >= 44) continue;
    let [from, to] = [middle, middle];
    while (middle - from < 30 && isHit(from - .5)) from -= .5;
    while (to - middle < 30 && isHit(to + .5)) to += .5;
    if (to - from < 43) found.push(`${to - from} px: ${one.tagName} ${one.className} ${(one.textContent || one.name).slice(0, 40)}`);
  }
  return found;
}"""


@pytest.mark.slow
async def test_on_a_phone_every_target_is_44_px_high(inbox: Inbox) -> None:
    await seed(inbox)
    ann = await inbox.visit("ann", role="admin", **{**PHONE, "viewport": {"width": 390, "height": 844}})
    found: set[str] = set()
    for place in PLACES:
        await ann.go(place)
        await settled(ann.page)
        await ann.page.wait_for_timeout(500)
        for top in (0, 600):
            await ann.page.evaluate("top => scrollTo(0, top)", top)
            found |= {f"{place}: {one}" for one in await ann.page.evaluate(SMALL)}
    assert found == set()


async def test_without_motion_where_people_want_none(inbox: Inbox) -> None:
    await seed(inbox)
    ann = await inbox.visit("ann", reduced_motion="reduce")
    await ann.open("git status")
    assert await ann.page.locator(".bar").first.evaluate("node => getComputedStyle(node).transitionDuration") == "0s"


async def test_somebody_is_present_only_while_the_page_is_visible_and_in_use(inbox: Inbox) -> None:
    session = await inbox.session()
    await session.submit("bash", ["git push"], request_id="r1")

    async def present() -> list[str]:
        return [client.name for client in await session.present() or ()]

    async def somebody() -> bool:
        return await present() == ["ann"]

    async def nobody() -> bool:
        return await present() == []

    ann = await inbox.visit("ann", None)
    await ann.page.clock.install()
    await ann.go()
    await wait_until_async(somebody, "ann to be there")
    await hide(ann.page, "true")
    await ann.page.clock.run_for(4000)
    await wait_until_async(nobody, "ann to be gone with the page hidden")
    await hide(ann.page, "false")
    await wait_until_async(somebody, "ann to be back")
    await ann.page.clock.fast_forward(6 * 60_000)
    await ann.page.clock.run_for(11_000)
    await wait_until_async(nobody, "ann to be gone after minutes without a touch")
    await ann.page.mouse.move(100, 100)
    await wait_until_async(somebody, "ann to be back at the first movement")
    await ann.page.goto("about:blank")
    await wait_until_async(nobody, "ann to be gone with the page")


async def hide(page: Page, hidden: str) -> None:
    """As when another tab is chosen; a browser without a screen has none."""
    await page.evaluate(
        f"Object.defineProperty(document, 'hidden', {{configurable: true, get: () => {hidden}}});"
        "document.dispatchEvent(new Event('visibilitychange'))"
    )


async def test_an_auditor_is_never_present(inbox: Inbox) -> None:
    session = await inbox.session()
    await session.submit("bash", ["git push"], request_id="r1")
    eve = await inbox.visit("eve", "/sessions/ses_1", role="auditor")
    await eve.page.locator(".fold-waiting summary").click()
    await expect(eve.card("git push")).to_be_visible()
    assert await session.present() == ()


# Stands for the browser's own: what it was told, and what it was told to take back.
NOTIFICATION = """
  window.told = [];
  window.Notification = class {
    static permission = "default";
    static requestPermission() { this.permission = "granted"; return Promise.resolve("granted"); }
    constructor(title, { body }) { this.text = `${title} | ${body}`; window.told.push(this.text); }
    close() { window.told.push(`taken back: ${this.text}`); }
  };
"""


async def test_who_wants_it_is_told_by_the_browser_of_what_waits_while_the_page_is_hidden(inbox: Inbox) -> None:
    session = await inbox.session()
    await session.submit("bash", ["git fetch"], request_id="r0")
    ann = await inbox.visit("ann", None)
    await ann.page.add_init_script(NOTIFICATION)
    await ann.go("/account")
    await session.submit("bash", ["git pull"], request_id="r1")
    await ann.page.get_by_role("button", name="Enable notifications").click()
    await expect(ann.page.get_by_role("button", name="Disable notifications")).to_be_visible()
    await expect(ann.page.locator(".count")).to_have_text("2")
    assert await ann.page.evaluate("window.told") == []
    await hide(ann.page, "true")
    await session.submit("bash", ["git push\u202e"], request_id="r2")
    asked = f"{(await session.state()).pending['r2'].asker.name} asks: bash | git push⟨U+202E⟩"
    told: list[str] = []

    async def is_told() -> bool:
        return bool(await ann.page.evaluate("window.told") == told)

    told = [asked]
    await wait_until_async(is_told, "the browser to be told of the request")
    await session.reply("r2", "once", actor="bob")
    told = [asked, f"taken back: {asked}"]
    await wait_until_async(is_told, "the browser to be told that it is settled")
