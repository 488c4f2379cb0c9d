"""The red band while something is frozen, in a real browser."""

from __future__ import annotations

from playwright.async_api import expect

from tests.gateway.inbox.visitors import Inbox, Visitor

RED = "rgb(179, 38, 30)"


async def freeze_everything(inbox: Inbox) -> None:
    await inbox.ledger.freezes.freeze(reason="an agent <b>pushes</b> to production", actor="bob")


async def shown(visitor: Visitor) -> str:
    band = visitor.page.locator("#frozen")
    await expect(band).to_be_visible()
    return await band.inner_text()


async def test_a_freeze_is_a_red_band_on_every_page_with_who_and_why(inbox: Inbox) -> None:
    await inbox.session()
    ann = await inbox.visit("ann")
    await expect(ann.page.locator("#connection")).to_have_text("live")
    await expect(ann.page.locator("#frozen")).to_be_hidden()
    await freeze_everything(inbox)
    text = await shown(ann)
    assert text.startswith("Everything is frozen by bob since ")
    assert "an agent <b>pushes</b> to production" in text
    assert "Nothing can be allowed meanwhile; rejecting works." in text
    band = ann.page.locator("#frozen")
    assert await band.evaluate("band => getComputedStyle(band).backgroundColor") == RED
    for path in ("/sessions", "/grants"):
        await ann.go(path)
        assert "Everything is frozen" in await shown(ann)


async def test_the_band_stays_in_sight_and_covers_nothing(inbox: Inbox) -> None:
    session = await inbox.session()
    for number in range(12):
        await session.submit("bash", [f"git push {number}"], request_id=f"r{number}")
    await freeze_everything(inbox)
    ann = await inbox.visit("ann", viewport={"width": 390, "height": 700})
    await shown(ann)
    await expect(ann.row("12 alike")).to_be_visible()
    await ann.page.evaluate("scrollTo(0, document.body.scrollHeight)")
    band, main = ann.page.locator("#frozen"), ann.page.locator("#top")
    await expect(band).to_be_in_viewport()
    assert await ann.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    outer, inner = await main.bounding_box(), await band.bounding_box()
    assert outer is not None
    assert inner is not None
    assert (inner["x"], inner["width"]) == (0, 390)
    assert inner["y"] >= outer["y"]
    assert inner["y"] + inner["height"] <= outer["y"] + outer["height"] + 1


async def test_a_yes_is_refused_on_the_card_a_reject_counts_and_the_band_ends(inbox: Inbox) -> None:
    session = await inbox.session()
    for number, command in ((1, "git push 1"), (2, "git fetch 2")):
        await session.submit("bash", [command], request_id=f"r{number}")
    await inbox.ledger.freezes.freeze("shop", reason="a leak", actor="bob")
    ann = await inbox.visit("ann")
    assert (await shown(ann)).startswith("Project shop is frozen by bob since ")
    await ann.press("git push 1", "Allow once")
    await expect(ann.row("git push 1")).to_contain_text("not sent")
    await ann.open("git push 1")
    await expect(ann.card("git push 1")).to_contain_text("nothing is allowed now: project `shop` was frozen by bob")
    await ann.press("git fetch 2", "Reject…")
    await ann.press("git fetch 2", "Reject and stop")
    await expect(ann.row("git fetch 2")).to_contain_text("Rejected")
    await inbox.ledger.freezes.unfreeze("shop")
    await expect(ann.page.locator("#frozen")).to_be_hidden()
