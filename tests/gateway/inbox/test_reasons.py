"""The grants that would have answered a request, on its card: read, chosen with a press, and safe against an agent's words."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.async_api import Locator, expect

from tests.gateway.inbox.barriers import barriers
from tests.gateway.inbox.visitors import Inbox, Visitor

RULES: dict[str, Any] = {"permission": {"bash": {"*": "ask"}}}
FORGED = "npm run \u202exod<img src=x onerror=alert(1)>\nexactly this smallest"


async def ask(inbox: Inbox, *past: tuple[str, str | None], request: str = "npm run test") -> None:
    """Ask in project shop: past requests, each allowed or rejected with words, and one that waits."""
    session = await inbox.session(rules=RULES, cwd="/srv/shop")
    for number, (line, rejected) in enumerate(past):
        await session.submit_tool("bash", {"command": line}, request_id=f"old{number}")
        await session.reply(f"old{number}", "reject" if rejected else "once", actor="bob", message=rejected)
    await session.submit_tool("bash", {"command": request}, request_id="r1")


async def opened(ann: Visitor, text: str = "npm run test") -> Locator:
    card = ann.card(text)
    await expect(card).to_have_attribute("data-armed", "")
    await card.focus()
    await ann.page.keyboard.press("w")
    await expect(card.locator(".offered")).to_be_visible()
    return card


async def test_each_grant_tells_what_else_it_would_have_answered_and_rejected_calls_first(inbox: Inbox) -> None:
    await ask(inbox, ("npm run deploy", "not on fridays"), ("npm run lint", None))
    ann = await inbox.visit("ann", viewport={"width": 1200, "height": 1400})
    card = await opened(ann)
    first, last = card.locator(".offered > li").first, card.locator(".offered > li").last
    await expect(first).to_contain_text("exactly this")
    await expect(first).to_contain_text("smallest")
    await expect(last).to_contain_text(
        "Would have answered 2 of 2 other requests of the last 30 days in shop; 1 of them"
    )
    await expect(last.locator(".examples li").first).to_contain_text("npm run deploy")
    await expect(last.locator(".examples li").first).to_contain_text("Rejected with instructions by bob")
    await card.locator(".rule-for-file > summary").click()
    await expect(card.locator(".rule-for-file pre")).to_contain_text('"npm run test": "allow"')
    await ann.page.keyboard.press("w")
    await expect(card.locator(".offered")).to_be_hidden()


@pytest.mark.parametrize(
    ("button", "scope", "uses", "expires"),
    [
        ("This session", "session", None, False),
        ("1 hour in shop", "project", None, True),
        ("5 more calls in shop", "project", 5, False),
        ("Always in shop", "project", None, False),
    ],
)
async def test_a_press_answers_with_exactly_that_grant_and_its_bounds(
    inbox: Inbox, button: str, scope: str, uses: int | None, *, expires: bool
) -> None:
    await ask(inbox)
    ann = await inbox.visit("ann", viewport={"width": 1200, "height": 1400})
    card = await opened(ann)
    grant = card.get_by_role("button", name=f"{button}: allow exactly this")
    await expect(grant).not_to_have_attribute("aria-disabled", "true")
    await grant.click()
    await expect(card).to_contain_text("Allowed by you")
    session = await inbox.session(rules=RULES)
    found = await session.approved() if scope == "session" else await inbox.ledger.approved_in_project("shop")
    (one,) = [row for row in found if row.grant.scope == scope]
    assert (one.grant.pattern, one.grant.uses) == ("npm run test", uses)
    assert (one.grant.expires_ms is not None) is expires


async def test_a_press_right_after_the_buttons_appeared_answers_nothing(inbox: Inbox) -> None:
    await ask(inbox)
    ann = await inbox.visit("ann", viewport={"width": 1200, "height": 1400})
    card = ann.card("npm run test")
    await expect(card).to_have_attribute("data-armed", "")
    await card.evaluate("""card => new Promise((done) => {
      new MutationObserver((_, observer) => {
        const grant = card.querySelector("[data-answer=grant]");
        if (!grant) return;
        observer.disconnect();
        grant.dispatchEvent(new MouseEvent("click", { detail: 1, bubbles: true, cancelable: true }));
        done();
      }).observe(card, { childList: true, subtree: true });
      card.querySelector(".reasons > summary").click();
    })""")
    await expect(ann.page.locator("#announcer")).to_contain_text("The list has just changed")
    assert ann.sent == []


async def test_words_of_an_agent_stay_text_in_examples_and_grants(inbox: Inbox) -> None:
    await ask(inbox, (FORGED, None), request="npm run \u202etest")
    ann = await inbox.visit("ann", viewport={"width": 1200, "height": 1400})
    card = ann.card("npm run")
    await card.locator(".reasons > summary").click()
    await expect(card.locator(".reasons-inner > *").first).to_be_visible()
    await expect(card.locator(".reasons .hint[role=status]")).to_have_count(0)
    assert await card.locator(".reasons img").count() == 0
    assert "\u202e" not in await card.locator(".reasons").inner_text()
    assert await card.locator(".offered .chip", has_text="smallest").count() <= 1


async def test_a_demanded_other_person_is_told_and_no_grant_is_offered(inbox: Inbox) -> None:
    demands = [{"permission": "bash", "not_by": "asker"}]
    session = await inbox.session(rules=RULES, demands=demands)
    await session.submit_tool("bash", {"command": "npm run test"}, request_id="r1", actor="ann")
    ann = await inbox.visit("ann")
    card = ann.card("npm run test")
    await card.locator(".reasons > summary").click()
    await expect(card.locator(".reasons")).to_contain_text("No grant would have answered it")
    assert await card.locator("[data-answer=grant]").count() == 0


async def test_an_auditor_reads_the_counts_and_has_no_buttons(inbox: Inbox) -> None:
    await ask(inbox, ("npm run lint", None))
    visitor = await inbox.visit("aud", role="auditor")
    card = visitor.card("npm run test")
    await card.locator(".reasons > summary").click()
    await expect(card.locator(".offered > li").first).to_be_visible()
    assert await card.locator("[data-answer=grant]").count() == 0


@pytest.mark.parametrize("colours", ["light", "dark"])
async def test_the_grants_have_no_barrier_and_fit_a_narrow_phone(inbox: Inbox, colours: Any) -> None:
    await ask(inbox, ("npm run deploy", "not on fridays"), ("npm run lint", None))
    phone: dict[str, Any] = {"viewport": {"width": 320, "height": 640}, "has_touch": True, "is_mobile": True}
    ann = await inbox.visit("ann", color_scheme=colours, **phone)
    card = ann.card("npm run test")
    await card.locator(".reasons > summary").click()
    await expect(card.locator(".offered")).to_be_visible()
    await card.locator(".rule-for-file > summary").click()
    assert await ann.page.evaluate("document.documentElement.scrollWidth") <= 320
    assert await barriers(ann.page) == []
