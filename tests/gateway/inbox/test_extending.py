"""Time to think in a real browser: typing, an open card, “+5 min”, and the clock that every viewer sees."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.async_api import expect

from ledger import Session, Timeouts
from ledger.core.events import DeadlineMoved
from tests.gateway.inbox.visitors import Inbox, Visitor
from tests.support.waiting import wait_until_async

FIVE_MINUTES = re.compile("^4m 5[0-9]s left$")
MINUTE = re.compile("^(5[0-9]s|1m) left$")


async def attended(inbox: Inbox, **more: Any) -> tuple[Session, Visitor]:
    """A person with the inbox open, and a request that is asked then."""
    session = await inbox.session(timeouts=Timeouts(attended=60), **more)
    ann = await inbox.visit("ann")

    async def is_there() -> bool:
        return bool(await session.present())

    await wait_until_async(is_there, "ann to be present")
    await session.submit("bash", ["git push"], request_id="r1")
    await expect(ann.card("git push").locator(".left")).to_have_text(MINUTE)
    return session, ann


async def reasons(session: Session) -> list[str | None]:
    found = [one.event async for one in session.events(follow_on=False)]
    return [one.reason for one in found if isinstance(one, DeadlineMoved)]


async def test_typing_extends_a_request_once_and_every_viewer_sees_it(inbox: Inbox) -> None:
    session, ann = await attended(inbox)
    bob = await inbox.visit("bob")
    await ann.press("git push", "Reject…")
    await ann.card("git push").get_by_role("textbox").press_sequentially("no")
    for one in (ann, bob):
        await expect(one.card("git push").locator(".left")).to_have_text(FIVE_MINUTES)
    await bob.press("git push", "Reject…")
    await bob.card("git push").get_by_role("textbox").press_sequentially("not now")
    await expect(bob.card("git push").get_by_role("textbox")).to_have_value("not now")
    assert await reasons(session) == ["typing"]
    await expect(ann.card("git push").get_by_role("textbox")).to_have_value("no")


@pytest.mark.slow
async def test_a_card_that_is_held_open_extends_its_request(inbox: Inbox) -> None:
    session, ann = await attended(inbox)
    await ann.page.keyboard.press("j")
    await expect(ann.card("git push").locator(".left")).to_have_text(FIVE_MINUTES)
    assert await reasons(session) == ["open_card"]


async def test_the_button_and_the_key_give_five_minutes_more_each(inbox: Inbox) -> None:
    session, ann = await attended(inbox)
    await ann.card("git push").get_by_role("button", name="+5 min").click()
    await expect(ann.card("git push").locator(".left")).to_have_text(re.compile("^5m 5[0-9]s left$"))
    await expect(ann.card("git push").get_by_role("button", name="+5 min")).to_be_hidden()
    await ann.card("git push").focus()
    await ann.page.keyboard.press("+")
    await expect(ann.card("git push").locator(".left")).to_have_text(re.compile("^10m 5[0-9]s left$"))
    assert await reasons(session) == ["by_hand", "by_hand"]


async def test_where_the_session_says_never_no_button_is_shown_and_typing_sends_nothing(inbox: Inbox) -> None:
    session, ann = await attended(inbox, extending="never")
    await expect(ann.card("git push").get_by_role("button", name="+5 min")).to_be_hidden()
    await ann.press("git push", "Reject…")
    await ann.card("git push").get_by_role("textbox").press_sequentially("no")
    await ann.page.keyboard.press("Escape")
    await ann.page.keyboard.press("+")
    await expect(ann.page.get_by_text("cannot be extended further")).to_be_attached()
    assert await reasons(session) == []


async def test_who_only_reads_sees_no_button(inbox: Inbox) -> None:
    await attended(inbox)
    eve = await inbox.visit("eve", role="auditor")
    await expect(eve.card("git push").locator(".left")).to_have_text(MINUTE)
    await expect(eve.page.get_by_role("button", name="+5 min")).to_have_count(0)
