"""The choices behind *Remember…*: what an answer remembers, what else they would let through, and its bounds."""

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
    card = await ann.remember(text)
    await expect(card.locator(".explained .hint[role=status]")).to_have_count(0)
    return card


async def test_each_grant_tells_what_else_it_would_have_answered_and_rejected_calls_first(inbox: Inbox) -> None:
    await ask(inbox, ("npm run deploy", "not on fridays"), ("npm run lint", None))
    ann = await inbox.visit("ann", viewport={"width": 1200, "height": 1400})
    card = await opened(ann)
    counted, choices = card.locator(".counted"), card.locator(".reach label")
    await expect(choices.first).to_contain_text("exactly this")
    await choices.first.click()
    await expect(counted).to_contain_text("Would have answered 0 of 2 other requests of the last 30 days in shop")
    await choices.last.click()
    await expect(counted).to_contain_text(
        "Would have answered 2 of 2 other requests of the last 30 days in shop; 1 of them"
    )
    await expect(card.locator(".examples li").first).to_contain_text("npm run deploy")
    await expect(card.locator(".examples li").first).to_contain_text("Rejected with instructions by bob")
    await card.locator(".rule-for-file > summary").click()
    await expect(card.locator(".rule-for-file pre")).to_contain_text('"npm run test": "allow"')
    await card.get_by_role("button", name="Back").click()
    await expect(card.locator(".explained")).to_have_count(0)


@pytest.mark.parametrize(
    ("field", "bound", "button", "scope"),
    [
        (None, None, "Allow in this session", "session"),
        ("How long it is remembered", "for 1 hour", "Always allow in shop", "project"),
        ("For how many calls", "5 more calls", "Always allow in shop", "project"),
        (None, None, "Always allow in shop", "project"),
    ],
)
async def test_an_answer_grants_exactly_the_choice_and_its_bounds(
    inbox: Inbox, field: str | None, bound: str | None, button: str, scope: str
) -> None:
    await ask(inbox)
    ann = await inbox.visit("ann", viewport={"width": 1200, "height": 1400})
    card = await opened(ann)
    await card.get_by_label("exactly this").check()
    if field is not None:
        await card.get_by_label(field).select_option(bound)
    await ann.press("npm run test", button)
    await expect(card).to_contain_text("Allowed by you")
    session = await inbox.session(rules=RULES)
    found = await session.approved() if scope == "session" else await inbox.ledger.approved_in_project("shop")
    (one,) = [row for row in found if row.grant.scope == scope]
    assert (one.grant.pattern, one.grant.uses) == ("npm run test", 5 if bound == "5 more calls" else None)
    assert (one.grant.expires_ms is not None) is (bound == "for 1 hour")


async def test_a_press_right_after_the_buttons_appeared_answers_nothing(inbox: Inbox) -> None:
    await ask(inbox)
    ann = await inbox.visit("ann", viewport={"width": 1200, "height": 1400})
    card = ann.card("npm run test")
    await expect(card).to_have_attribute("data-armed", "")
    await card.evaluate("""card => {
      const press = (name) => card.querySelector(`[data-answer=${name}]`).dispatchEvent(new MouseEvent("click", { detail: 1, bubbles: true, cancelable: true }));
      press("remember");
      press("session");
    }""")
    await expect(ann.page.locator("#announcer")).not_to_be_empty()
    assert ann.sent == []


async def test_words_of_an_agent_stay_text_in_examples_and_grants(inbox: Inbox) -> None:
    await ask(inbox, (FORGED, None))
    ann = await inbox.visit("ann", viewport={"width": 1200, "height": 1400})
    card = await opened(ann)
    await card.locator(".reach label").last.click()
    assert await card.locator(".form img").count() == 0
    assert "\u202e" not in await card.locator(".form").inner_text()


async def test_where_no_grant_counts_the_form_says_so(inbox: Inbox) -> None:
    demands = [{"permission": "bash", "not_by": "asker"}]
    session = await inbox.session(rules=RULES, demands=demands)
    await session.submit_tool("bash", {"command": "npm run test"}, request_id="r1", actor="ann")
    ann = await inbox.visit("ann")
    await expect(await opened(ann)).to_contain_text("No grant would have answered it")


@pytest.mark.parametrize("colours", ["light", "dark"])
async def test_the_grants_have_no_barrier_and_fit_a_narrow_phone(inbox: Inbox, colours: Any) -> None:
    await ask(inbox, ("npm run deploy", "not on fridays"), ("npm run lint", None))
    phone: dict[str, Any] = {"viewport": {"width": 320, "height": 640}, "has_touch": True, "is_mobile": True}
    ann = await inbox.visit("ann", color_scheme=colours, **phone)
    card = await opened(ann)
    await card.locator(".rule-for-file > summary").click()
    assert await ann.page.evaluate("document.documentElement.scrollWidth") <= 320
    assert await barriers(ann.page) == []
