"""Drafts survive a reload, an expiry, and somebody else's answer."""

from __future__ import annotations

import pytest
from playwright.async_api import Locator, expect

from ledger import Session, Timeouts
from ledger.core.events import Actor
from tests.gateway.inbox.visitors import Inbox, Visitor

BOB = Actor("person", "bob", "gateway")
TEXT = "open a pull request"


async def written(inbox: Inbox, seconds: int = 600) -> tuple[Session, Visitor]:
    """A person who has written instructions on a card and not sent them."""
    session = await inbox.session(timeouts=Timeouts(attended=seconds, unattended=seconds, cap=seconds))
    await session.submit("bash", ["git push"], request_id="r1")
    ann = await inbox.visit("ann", None)
    await ann.page.route("**/clients/*", lambda route: route.abort())
    await ann.go()
    await ann.press("git push", "Reject…")
    await ann.card("git push").get_by_role("textbox").fill(TEXT)
    return session, ann


def unsent(visitor: Visitor) -> Locator:
    return visitor.page.locator(".unsent")


async def test_a_text_survives_a_reload_and_is_sent_after_it(inbox: Inbox) -> None:
    session, ann = await written(inbox)
    await ann.page.reload()
    await expect(ann.card("git push").get_by_role("textbox")).to_have_value(TEXT)
    await ann.press("git push", "Reject with instructions")
    await expect(ann.card("git push")).to_contain_text("Rejected with instructions by you")
    assert (await session.result("r1")).message is not None
    await expect(unsent(ann)).to_have_count(0)


async def test_a_text_survives_somebody_elses_answer_until_it_is_discarded(inbox: Inbox) -> None:
    session, ann = await written(inbox)
    await session.reply("r1", "once", actor=BOB)
    await expect(unsent(ann)).to_contain_text("git push has ended meanwhile")
    await expect(unsent(ann).get_by_role("textbox")).to_have_value(TEXT)
    await ann.page.reload()
    await expect(unsent(ann).get_by_role("textbox")).to_have_value(TEXT)
    await unsent(ann).get_by_role("button", name="Discard").click()
    await expect(unsent(ann)).to_have_count(0)
    await ann.page.reload()
    await expect(ann.page.get_by_text("Nothing is waiting.")).to_be_visible()
    await expect(unsent(ann)).to_have_count(0)


@pytest.mark.slow
async def test_a_text_survives_the_deadline(inbox: Inbox) -> None:
    _, ann = await written(inbox, seconds=12)
    await expect(ann.card("git push")).to_contain_text("deadline passed")
    await ann.press("git push", "Reject with instructions")
    await expect(ann.card("git push")).to_contain_text("Expired: nobody answered in time")
    await expect(unsent(ann).get_by_role("textbox")).to_have_value(TEXT)


@pytest.mark.slow
async def test_an_edited_command_survives_a_reload(inbox: Inbox) -> None:
    session = await inbox.session(dialect="claude", rules={"permissions": {}})
    await session.submit_tool("Bash", {"command": "git push --force"}, request_id="r1")
    ann = await inbox.visit("ann")
    await ann.press("git push --force", "Edit…")
    await ann.card("git push").get_by_role("textbox").fill("git push --force-with-lease")
    await ann.page.reload()
    await expect(ann.card("git push").get_by_role("textbox")).to_have_value("git push --force-with-lease")


@pytest.mark.slow
async def test_a_text_for_a_group_is_not_put_into_another_group_after_a_reload(inbox: Inbox) -> None:
    session = await inbox.session()
    for name in ("a", "b"):
        await session.submit("bash", [f"git push origin {name}"], request_id=name)
    ann = await inbox.visit("ann")
    await ann.press("2 alike", "Reject 2…")
    await ann.card("2 alike").get_by_role("textbox").fill(TEXT)
    await ann.page.reload()
    await expect(ann.card("2 alike").get_by_role("button", name="Reject 2…")).to_be_visible()
    await expect(unsent(ann).get_by_role("textbox")).to_have_value(TEXT)
