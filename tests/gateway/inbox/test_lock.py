"""Sessions that take answers from one device at a time: its display, and how to become it."""

from __future__ import annotations

from playwright.async_api import expect

from ledger import Session
from tests.gateway.inbox.visitors import Inbox, Visitor


async def locked(inbox: Inbox) -> tuple[Session, Visitor, Visitor]:
    """A session where ann's device holds the input lock, and bob with his inbox open."""
    session = await inbox.session(answering="lock-holder", dialect="betcode", rules={"permissions": {}})
    await session.submit("bash", ["git push"], request_id="r1")
    ann = await inbox.visit("ann", "/sessions/ses_1")
    await expect(ann.page.locator(".moment")).to_contain_text("ann holds the input lock")
    await ann.page.locator(".fold-waiting summary").click()
    return session, ann, await inbox.visit("bob")


async def test_whoever_does_not_hold_the_lock_is_told_who_does_and_nothing_is_sent(inbox: Inbox) -> None:
    session, _, bob = await locked(inbox)
    await bob.press("git push", "Allow once")
    await expect(bob.card("git push")).to_contain_text(
        "Nothing was sent: in this session only the device that holds its input lock may answer, and ann holds it since"
    )
    assert (await session.result("r1")).outcome is None


async def test_the_lock_comes_to_whoever_asked_for_it_when_its_holder_leaves(inbox: Inbox) -> None:
    session, ann, bob = await locked(inbox)
    await bob.press("git push", "Allow once")
    await bob.press("git push", "Ask for the lock")
    await expect(bob.card("git push")).to_contain_text("You have asked for the lock")
    await ann.page.goto("about:blank")
    await expect(bob.card("git push")).to_contain_text("You hold the lock now: answer again.")
    await bob.press("git push", "Allow once")
    await expect(bob.card("git push")).to_contain_text("Allowed by you (once)")
    assert (await session.result("r1")).by.name == "bob"


async def test_the_holder_of_the_lock_answers_as_anywhere_else(inbox: Inbox) -> None:
    session, ann, _ = await locked(inbox)
    await ann.press("git push", "Allow once")
    await expect(ann.card("git push")).to_contain_text("Allowed by you (once)")
    assert (await session.result("r1")).by.name == "ann"


async def test_the_holder_is_told_who_wants_the_lock_and_can_hand_it_over(inbox: Inbox) -> None:
    session, ann, bob = await locked(inbox)
    await expect(ann.page.locator("#connection")).to_have_text("live")
    await bob.press("git push", "Allow once")
    await bob.press("git push", "Ask for the lock")
    await expect(ann.card("git push")).to_contain_text("bob asks for the input lock of this session")
    await ann.press("git push", "Hand over the lock")
    await expect(ann.card("git push")).to_contain_text("bob may answer here now.")
    await expect(bob.card("git push")).to_contain_text("You hold the lock now: answer again.")
    await bob.press("git push", "Allow once")
    assert (await session.wait("r1")).by.name == "bob"
