"""A request that several people must approve: its card says who has, and asks for the others."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

from playwright.async_api import expect

from ledger import Session
from tests.gateway.inbox.barriers import barriers
from tests.gateway.inbox.visitors import Inbox, Visitor

PUSH: Final = "git push origin main"


async def waiting(inbox: Inbox, **demand: Any) -> Session:
    session = await inbox.session(rules={"permission": {"bash": "ask"}}, demands=[{"approvers": 2, **demand}])
    await session.submit("bash", [PUSH], request_id="r1", always=["git push *"])
    return session


async def picture(visitor: Visitor, name: str) -> None:
    folder = os.environ.get("PERMISSION_LEDGER_TEST_PICTURES")
    if folder:
        await visitor.page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)


async def test_each_person_approves_on_their_own_page_and_the_others_see_it(inbox: Inbox) -> None:
    session = await waiting(inbox)
    ada, bob = await inbox.visit("ada"), await inbox.visit("bob")
    await expect(ada.card(PUSH)).to_contain_text("2 people must approve it")
    assert (await ada.card(PUSH).inner_text()).count("2 people") == 1
    await expect(ada.card(PUSH).get_by_role("button", name="Remember…")).to_have_count(0)
    await picture(ada, "before")
    await ada.press(PUSH, "Approve (1 of 2)")
    await expect(ada.card(PUSH)).to_contain_text("You approved just now; waits for 1 more person.")
    await expect(ada.card(PUSH).locator("[data-answer=once]")).to_have_count(0)
    await expect(bob.card(PUSH)).to_contain_text("ada approved")
    await picture(bob, "after-the-first")
    await picture(ada, "own")
    await bob.press(PUSH, "Approve (2 of 2)")
    await expect(bob.card(PUSH)).to_contain_text("Allowed by ada and you (once)")
    await expect(ada.card(PUSH)).to_contain_text("Allowed by you and bob (once)")
    assert (await session.result("r1")).outcome == "allowed"
    await picture(ada, "allowed")


async def test_a_page_without_a_stream_sees_the_yes_of_another(inbox: Inbox) -> None:
    session = await waiting(inbox)
    bob = await inbox.visit("bob", None)
    await bob.page.route("**/v1/events*", lambda route: route.fulfill(status=404, body="{}"))
    await bob.go()
    await expect(bob.card(PUSH)).to_contain_text("2 people must approve it")
    await session.reply("r1", "once", actor="ada")
    await inbox.project()
    await bob.go()
    await expect(bob.card(PUSH)).to_contain_text("ada approved")


async def test_a_no_after_a_yes_ends_it(inbox: Inbox) -> None:
    session = await waiting(inbox)
    await session.reply("r1", "once", actor="bob")
    ada = await inbox.visit("ada")
    await ada.press(PUSH, "Reject…")
    await ada.press(PUSH, "Reject and stop")
    await expect(ada.card(PUSH)).to_contain_text("Rejected by you")
    assert (await session.result("r1")).outcome == "rejected"


async def test_a_rejection_that_is_being_written_is_not_disturbed_by_a_yes(inbox: Inbox) -> None:
    session = await waiting(inbox)
    ada = await inbox.visit("ada")
    await ada.press(PUSH, "Reject…")
    await ada.card(PUSH).locator("textarea").fill("use the staging")
    await session.reply("r1", "once", actor="bob")
    await ada.page.keyboard.type(" branch")
    await expect(ada.card(PUSH).locator("textarea")).to_have_value("use the staging branch")
    await ada.press(PUSH, "Back")
    await expect(ada.card(PUSH)).to_contain_text("bob approved")


async def test_a_person_whom_the_rule_does_not_count_is_told(inbox: Inbox) -> None:
    await waiting(inbox, among=["ada", "bob"])
    eve = await inbox.visit("eve")
    await expect(eve.card(PUSH)).to_contain_text("2 people must approve it")
    await expect(eve.card(PUSH)).to_contain_text("counting only ada or bob")
    await eve.press(PUSH, "Approve (1 of 2)")
    await expect(eve.card(PUSH)).to_contain_text("the rule counts only `ada` and `bob`, and you answer as `eve`")


async def test_the_card_fits_a_narrow_phone_in_the_dark_and_has_no_barrier(inbox: Inbox) -> None:
    session = await waiting(inbox, among=["ada", "bob", "a-person-with-a-very-long-name@an-organisation.example"])
    await session.reply("r1", "once", actor="bob")
    phone: dict[str, Any] = {
        "viewport": {"width": 320, "height": 700},
        "color_scheme": "dark",
        "reduced_motion": "reduce",
    }
    ada = await inbox.visit("ada", **phone)
    await ada.open(PUSH)
    await expect(ada.card(PUSH)).to_contain_text("bob approved")
    width = await ada.page.evaluate("document.documentElement.scrollWidth")
    assert width <= 320
    await picture(ada, "phone")
    assert await barriers(ada.page) == []
    await ada.card(PUSH).evaluate("card => card.querySelector('.foot').scrollIntoView({ block: 'nearest' })")
    await ada.card(PUSH).get_by_role("button", name="Approve (2 of 2)").click()
    await expect(ada.card(PUSH)).to_contain_text("Allowed by bob and you")
