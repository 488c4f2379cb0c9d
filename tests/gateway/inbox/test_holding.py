"""A moment to take an answer back: nothing leaves the page before it has passed."""

from __future__ import annotations

import pytest
from playwright.async_api import expect

from ledger import Session, Timeouts
from ledger.core.events import Actor
from tests.gateway.inbox.visitors import Inbox, Visitor

HOLD_S = 3
LONG_S = 10
BOB = Actor("person", "bob", "gateway")


async def held(inbox: Inbox, hold: int = LONG_S) -> tuple[Session, Visitor]:
    """A person whose allow is held, and its session."""
    session = await inbox.session()
    await session.submit("bash", ["git push"], request_id="r1")
    ann = await inbox.visit("ann", hold=hold)
    await ann.press("git push", "Allow once")
    await expect(ann.card("git push")).to_contain_text(f"Allow once: sent within {hold} s")
    return session, ann


async def test_an_allow_leaves_after_its_hold(inbox: Inbox) -> None:
    session, ann = await held(inbox, HOLD_S)
    assert (await session.result("r1")).outcome is None
    assert ann.sent == []
    await expect(ann.card("git push")).to_contain_text("Allowed by you (once)")
    assert (await session.result("r1")).outcome == "allowed"


async def test_an_answer_that_was_taken_back_is_never_sent(inbox: Inbox) -> None:
    session, ann = await held(inbox, HOLD_S)
    await ann.card("git push").get_by_role("button", name="Undo").click()
    await expect(ann.card("git push").get_by_role("button", name="Reject…")).to_be_visible()
    await ann.page.evaluate("ms => new Promise(done => setTimeout(done, ms))", HOLD_S * 1000)
    assert ann.sent == []
    assert (await session.result("r1")).outcome is None
    await ann.press("git push", "Reject…")
    await ann.press("git push", "Reject and stop")
    await expect(ann.card("git push")).to_contain_text("Rejected by you")


async def test_a_key_takes_the_newest_answer_back(inbox: Inbox) -> None:
    _, ann = await held(inbox)
    await ann.page.keyboard.press("u")
    await expect(ann.card("git push").get_by_role("button", name="Allow once")).to_be_visible()
    assert ann.sent == []


@pytest.mark.slow
async def test_a_reject_leaves_at_once(inbox: Inbox) -> None:
    session = await inbox.session()
    await session.submit("bash", ["git push"], request_id="r1")
    ann = await inbox.visit("ann", hold=LONG_S)
    await ann.press("git push", "Reject…")
    await ann.press("git push", "Reject and stop")
    await expect(ann.card("git push")).to_contain_text("Rejected by you")


async def test_the_deadline_counts_and_not_the_hold(inbox: Inbox) -> None:
    session = await inbox.session(timeouts=Timeouts(attended=9, unattended=9, cap=9))
    await session.submit("bash", ["git push"], request_id="r1")
    ann = await inbox.visit("ann", hold=LONG_S)
    await ann.press("git push", "Allow once")
    await expect(ann.card("git push")).to_contain_text("Allowed by you (once)")


async def test_a_page_that_is_left_within_the_hold_has_said_nothing(inbox: Inbox) -> None:
    session, ann = await held(inbox)
    await ann.page.reload()
    await expect(ann.card("git push").get_by_role("button", name="Allow once")).to_be_visible()
    assert ann.sent == []
    assert (await session.result("r1")).outcome is None


@pytest.mark.slow
async def test_another_page_of_the_inbox_does_not_end_the_hold(inbox: Inbox) -> None:
    session, ann = await held(inbox, HOLD_S)
    await ann.page.get_by_role("link", name="Grants").click()
    await ann.page.get_by_role("link", name="Inbox").click()
    await expect(ann.page.locator(".lines")).to_contain_text("allowed by you (once)")
    assert (await session.result("r1")).outcome == "allowed"


@pytest.mark.slow
async def test_an_answer_of_somebody_else_within_the_hold_counts_and_nothing_is_sent(inbox: Inbox) -> None:
    session, ann = await held(inbox, HOLD_S)
    await session.reply("r1", "reject", actor=BOB)
    await expect(ann.card("git push")).to_contain_text("Rejected by bob")
    await ann.page.evaluate("ms => new Promise(done => setTimeout(done, ms))", HOLD_S * 1000)
    assert ann.sent == []


@pytest.mark.slow
async def test_a_device_that_slept_over_the_hold_sends_nothing(inbox: Inbox) -> None:
    session = await inbox.session()
    await session.submit("bash", ["git push"], request_id="r1")
    ann = await inbox.visit("ann", hold=HOLD_S)
    await ann.press("git push", "Allow once")
    # The timer runs on time, and by the clock minutes have passed.
    await ann.page.evaluate("() => { const now = Date.now; Date.now = () => now() + 600_000; }")
    await expect(ann.card("git push")).to_contain_text("Nothing was sent, because this device slept")
    assert ann.sent == []
    assert (await session.result("r1")).outcome is None


@pytest.mark.slow
async def test_a_group_is_taken_back_whole(inbox: Inbox) -> None:
    session = await inbox.session()
    for name in ("a", "b"):
        await session.submit("bash", [f"git push origin {name}"], request_id=name)
    ann = await inbox.visit("ann", hold=LONG_S)
    await ann.press("2 alike", "Allow 2 once")
    await expect(ann.card("2 alike")).to_contain_text("Allow once (2): sent within 10 s")
    await ann.card("2 alike").get_by_role("button", name="Undo").click()
    await expect(ann.card("2 alike").get_by_role("button", name="Allow 2 once")).to_be_visible()
    assert ann.many == []


@pytest.mark.slow
async def test_each_person_chooses_how_long_an_answer_is_held(inbox: Inbox) -> None:
    session = await inbox.session()
    await session.submit("bash", ["git push"], request_id="r1")
    ann = await inbox.visit("ann", "/account", hold=LONG_S)
    await ann.page.get_by_label("An answer that allows can be taken back for").select_option("not at all")
    await ann.page.get_by_role("link", name="Inbox").click()
    await ann.press("git push", "Allow once")
    await expect(ann.card("git push")).to_contain_text("Allowed by you (once)")
