"""The page of one request: answerable while it is pending, then its outcome, and the next one."""

from __future__ import annotations

import re
from typing import Any

from playwright.async_api import expect

from ledger.core.events import Actor
from tests.gateway.inbox.test_answer_page import asked, link_to, phone
from tests.gateway.inbox.visitors import Inbox
from workers.presentation.words import outcome_words

BOB = Actor("person", "bob", "gateway")


async def test_a_pending_request_is_answered_on_its_own_page_which_then_tells_the_outcome(inbox: Inbox) -> None:
    session = await inbox.session()
    for number, command in enumerate(("git push v1", "make test"), 1):
        await session.submit("bash", [command], request_id=f"r{number}")
    ann = await inbox.visit("ann")
    await (await ann.more("git push v1")).get_by_role("link", name="page of this request").click()
    await expect(ann.page).to_have_url(re.compile(r"/requests/r1\?session=ses_1$"))
    await expect(ann.page.locator("article.card")).to_have_count(1)
    await ann.press("git push v1", "Allow once")
    await expect(ann.page.get_by_text("Allowed by you (once)").first).to_be_visible()
    await expect(ann.page.get_by_role("link", name=re.compile("event [0-9]+")).last).to_have_attribute(
        "href", re.compile("/sessions/ses_1#[0-9]+")
    )
    await ann.page.get_by_role("link", name="make test").click()
    await expect(ann.card("make test").get_by_role("button", name="Allow once")).to_be_visible()
    assert (await session.result("r1")).allowed


async def test_an_answer_given_elsewhere_turns_the_page_into_the_outcome(inbox: Inbox) -> None:
    session = await inbox.session()
    await session.submit("bash", ["git push"], request_id="r1")
    ann = await inbox.visit("ann", "/requests/r1")
    await expect(ann.card("git push")).to_be_visible()
    await session.reply("r1", "reject", message="not today", actor=BOB)
    await expect(ann.page.get_by_text("Rejected with instructions by bob").first).to_be_visible()
    await expect(ann.page.locator(".facts-list")).to_contain_text("not today")


async def test_every_outcome_is_told_in_the_words_of_the_answer_page(inbox: Inbox) -> None:
    rules = [{"permission": "bash", "pattern": one, "action": act} for one, act in (("*", "ask"), ("ls", "allow"))]
    session = await inbox.session(rules=[*rules, {"permission": "bash", "pattern": "rm *", "action": "deny"}])
    for name, command in {"by-rule": "ls", "denied": "rm -rf x"}.items():
        await session.submit("bash", [command], request_id=name)
    answers: dict[str, dict[str, Any]] = {
        "mine": {"reply": "once", "actor": Actor("person", "ann", "gateway")},
        "others": {"reply": "session", "actor": BOB},
        "told": {"reply": "once", "actor": BOB, "told": "editor"},
        "corrected": {"reply": "reject", "message": "not today", "actor": BOB},
        "rejected": {"reply": "reject", "actor": BOB},
    }
    for name, answer in answers.items():
        await session.submit("bash", [f"make {name}"], request_id=name, always=[f"make {name}"])
        await session.reply(name, **answer)
    await session.submit("bash", ["make others"], request_id="by-grant")
    await session.submit("bash", ["make more"], request_id="cancelled")
    await session.cancel("cancelled", reason="the agent changed its mind")
    ann = await inbox.visit("ann", None)
    for name in (*answers, "by-rule", "denied", "by-grant", "cancelled"):
        await ann.go(f"/requests/{name}")
        words = outcome_words(await session.result(name), "ann")
        await expect(ann.page.locator("p.status")).to_have_text(re.compile(rf"^{re.escape(words)}(: .+)?$"))


async def test_an_unknown_request_is_named_and_several_are_listed(inbox: Inbox) -> None:
    for name in ("ses_1", "ses_2"):
        await (await inbox.session(name)).submit("bash", ["git push"], request_id="r1")
    ann = await inbox.visit("ann", "/requests/r9")
    await expect(ann.page.get_by_role("heading", level=1)).to_have_text("Unknown request")
    await ann.go("/requests/r1")
    await ann.page.get_by_role("link", name="ses_2").click()
    await expect(await ann.more("git push")).to_contain_text("ses_2")


async def test_after_an_answer_link_the_next_request_is_shown_to_who_is_signed_in(inbox: Inbox) -> None:
    session = await asked(inbox)
    await session.submit("bash", ["make test"], request_id="r2")
    link = await link_to(inbox, "r1")
    bob = await inbox.visit("bob", None)
    await bob.page.goto(link)
    await bob.page.get_by_role("button", name="Allow once").click()
    await bob.page.get_by_role("link", name="Next waiting request").click()
    await expect(bob.card("make test").get_by_role("button", name="Allow once")).to_be_visible()
    await session.reply("r2", "once", actor=BOB)
    await bob.go("/next")
    await expect(bob.page.get_by_text("Nothing is waiting.")).to_be_visible()


async def test_the_link_alone_shows_no_other_request(inbox: Inbox) -> None:
    session = await asked(inbox)
    await session.submit("bash", ["make secret"], request_id="r2")
    page = await phone(inbox)
    await page.goto(await link_to(inbox, "r1"))
    await page.get_by_role("button", name="Allow once").tap()
    await page.get_by_role("link", name="Next waiting request").tap()
    await expect(page.get_by_role("button", name="Sign in")).to_be_visible()
    await expect(page.locator("body")).not_to_contain_text("make secret")


async def test_signing_in_leads_back_to_the_request_of_its_session(inbox: Inbox) -> None:
    for name in ("ses_1", "ses_2"):
        await (await inbox.session(name)).submit("bash", [f"git push {name}"], request_id="r1")
    token = (await inbox.ledger.tokens.create("ann", "approver")).text
    stranger = await inbox.stranger()
    await stranger.page.goto(f"{inbox.url}/requests/r1?session=ses_2")
    await stranger.page.get_by_label("Your token").fill(token)
    await stranger.page.get_by_role("button", name="Sign in", exact=True).click()
    await expect(stranger.card("git push ses_2")).to_be_visible()
    await expect(stranger.page).to_have_url(f"{inbox.url}/requests/r1?session=ses_2")
