"""The page behind an answer link, in a browser: on a phone, with one tap, in every state of request and link."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.async_api import Page, expect

from ledger import ExpiredError, Timeouts
from ledger.stores.secrets import link_key
from tests.gateway.inbox.barriers import barriers
from tests.gateway.inbox.visitors import Inbox
from workers.runtime.answer_links import AnswerLink, AnswerLinks

PHONE: dict[str, Any] = {"viewport": {"width": 320, "height": 640}, "has_touch": True, "is_mobile": True}
TAP_PX_MIN = 44
COMMAND = "cat > deploy.yaml <<'EOF'\nreplicas: 6\nEOF\nkubectl apply -f deploy.yaml --context production-europe-west"


async def link_to(inbox: Inbox, request_id: str, *, seconds: int = 3600) -> str:
    pending = {one.request.request_id: one for one in await inbox.ledger.pending()}
    one = pending[request_id]
    await inbox.ledger.tokens.create("ann", "approver", token_id="tok_ann", secret="of-ann")
    expires_ms = inbox.ledger.store.clock.now_ms() + seconds * 1000
    link = AnswerLink(one.session, request_id, one.request.digest, "ann", expires_ms)
    return f"{inbox.url}/answer/" + AnswerLinks(await link_key(inbox.ledger.store)).sign(link)


async def asked(inbox: Inbox, **more: Any) -> Any:
    session = await inbox.session(cwd="/srv/shop", **more)
    await session.submit("bash", [COMMAND], always=["kubectl apply *"], request_id="r1", metadata={"ticket": "SHOP-1"})
    return session


async def phone(inbox: Inbox, **more: Any) -> Page:
    return (await inbox.stranger(**PHONE, **more)).page


async def test_a_link_answers_with_one_tap_and_afterwards_says_what_became_of_it(inbox: Inbox) -> None:
    session = await asked(inbox)
    page = await phone(inbox)
    link = await link_to(inbox, "r1")
    await page.goto(link)
    await expect(page.get_by_role("heading", level=1)).to_have_text(re.compile("May .+ run bash\\?"))
    await expect(page.locator("body")).to_contain_text("calls itselfbuild")
    await expect(page.locator("pre").first).to_have_text(COMMAND)
    assert (await session.result("r1")).outcome is None
    await page.get_by_role("button", name="Allow once").tap()
    await expect(page.get_by_role("heading", level=1)).to_have_text("Allowed by you (once)")
    result = await session.result("r1")
    assert (result.outcome, result.by.name, result.by.via) == ("allowed", "ann", "link")
    # Used: the same address says how it ended, and has nothing more to press.
    await page.goto(link)
    await expect(page.get_by_role("heading", level=1)).to_have_text("Allowed by you (once)")
    await expect(page.get_by_role("button")).to_have_count(0)


async def test_the_page_says_in_which_folder_the_call_would_run(inbox: Inbox) -> None:
    session = await inbox.session(cwd="/srv/scratch")
    await session.submit("bash", ["make deploy"], request_id="r1", cwd="/srv/production")
    page = await phone(inbox)
    await page.goto(await link_to(inbox, "r1"))
    await expect(page.locator("body")).to_contain_text("/srv/production")
    await expect(page.locator("body")).not_to_contain_text("/srv/scratch")


async def test_a_rejection_with_words_reaches_the_agent(inbox: Inbox) -> None:
    session = await asked(inbox)
    page = await phone(inbox)
    await page.goto(await link_to(inbox, "r1"))
    await page.get_by_role("textbox").fill("show me the diff first")
    await page.get_by_role("button", name="Reject").tap()
    await expect(page.get_by_role("heading", level=1)).to_have_text("Rejected with instructions by you")
    await expect(page.locator("main")).to_contain_text("show me the diff first")
    result = await session.result("r1")
    assert (result.outcome, result.settled.message) == ("corrected", "show me the diff first")


async def test_a_link_whose_time_is_over_says_so_and_offers_the_inbox(inbox: Inbox) -> None:
    session = await asked(inbox)
    page = await phone(inbox)
    await page.goto(await link_to(inbox, "r1", seconds=-1))
    await expect(page.locator("main")).to_contain_text("This link has expired; open the inbox")
    await expect(page.get_by_role("button")).to_have_count(0)
    await expect(page.get_by_role("link", name="Open the inbox")).to_have_attribute("href", "/")
    assert (await session.result("r1")).outcome is None


async def test_a_request_whose_time_is_over_says_so(inbox: Inbox) -> None:
    session = await inbox.session(timeouts=Timeouts(attended=2, unattended=2, cap=2))
    await session.submit("bash", [COMMAND], request_id="r1")
    link = await link_to(inbox, "r1")
    with pytest.raises(ExpiredError):
        await session.ask("bash", [COMMAND], request_id="r1")
    page = await phone(inbox)
    await page.goto(link)
    await expect(page.get_by_role("heading", level=1)).to_have_text("Expired: nobody answered in time")
    await expect(page.get_by_role("button")).to_have_count(0)


@pytest.mark.parametrize("change", ["signature", "cut", "another ledger's"])
async def test_a_link_that_is_not_ours_is_refused_and_tells_nothing_of_the_request(inbox: Inbox, change: str) -> None:
    session = await asked(inbox)
    link = await link_to(inbox, "r1")
    if change == "another ledger's":
        pending = (await inbox.ledger.pending())[0]
        now_ms = inbox.ledger.store.clock.now_ms()
        foreign = AnswerLink(pending.session, "r1", pending.request.digest, "ann", now_ms + 1000)
        link = f"{inbox.url}/answer/{AnswerLinks(b'another').sign(foreign)}"
    else:
        # Not its last character: of that one some bits mean nothing.
        other = link[:-9] + ("A" if link[-9] != "A" else "B") + link[-8:]
        link = other if change == "signature" else link[: len(link) // 2]
    page = await phone(inbox)
    answer = await page.goto(link)
    assert answer
    assert answer.status == 404
    await expect(page.get_by_role("heading", level=1)).to_have_text("This cannot be answered here")
    await expect(page.locator("body")).not_to_contain_text("kubectl")
    assert (await session.result("r1")).outcome is None


@pytest.mark.parametrize("colours", ["light", "dark"])
async def test_on_a_narrow_phone_it_has_no_barrier_and_nothing_is_cut_off(inbox: Inbox, colours: Any) -> None:
    await asked(inbox)
    page = await phone(inbox, color_scheme=colours)
    link = await link_to(inbox, "r1")
    for place in (link, f"{link}x"):
        await page.goto(place)
        assert await barriers(page) == []
        assert await page.evaluate("document.documentElement.scrollWidth") <= PHONE["viewport"]["width"]
    await page.goto(link)
    for button in await page.get_by_role("button").all():
        box = await button.bounding_box()
        assert box
        assert box["height"] >= TAP_PX_MIN
    await page.get_by_role("button", name="Allow once").tap()
    await expect(page.get_by_role("heading", level=1)).to_contain_text("Allowed by you")
    assert await barriers(page) == []
