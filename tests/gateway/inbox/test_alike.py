"""Alike requests as one card: one answer for those that were drawn, with a result for each."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from playwright.async_api import Locator, Route, expect

from ledger.core.events import Actor
from tests.gateway.inbox.barriers import barriers
from tests.gateway.inbox.visitors import Inbox, Visitor

BOB = Actor("person", "bob", "gateway")


async def ask(inbox: Inbox, session_id: str, *commands: str, **more: object) -> None:
    session = await inbox.session(session_id, **more)
    for command in commands:
        await session.submit("bash", [command], always=["git push *"], request_id=command.split()[-1])


async def outcome(inbox: Inbox, session_id: str, request_id: str) -> str | None:
    return (await (await inbox.session(session_id)).result(request_id)).outcome


def group(visitor: Visitor) -> Locator:
    return visitor.page.locator("article.group")


async def visit_whole(inbox: Inbox, **options: Any) -> Visitor:
    """Open the inbox without its first three requests, of which a group may be drawn, and kept, before the others come."""
    ann = await inbox.visit("ann", None, **options)
    await ann.page.route("**/v1/pending?limit=*", lambda route: route.abort())
    await ann.go()
    return ann


async def test_a_group_of_the_first_requests_stays_as_it_was_until_the_others_are_added(inbox: Inbox) -> None:
    await ask(inbox, "ses_1", *(f"git push origin b{index}" for index in range(4)))
    ann, others = await inbox.visit("ann", None), asyncio.Event()

    async def later(route: Route) -> None:
        await others.wait()
        await route.continue_()

    await ann.page.route("**/v1/events*", later)
    await ann.go()
    await expect(group(ann)).to_have_attribute("data-armed", "")
    others.set()
    await expect(group(ann)).to_contain_text("1 more like these is not in this group")
    await expect(group(ann)).to_contain_text("3 alike")
    await group(ann).get_by_role("button", name="Add it").click()
    await expect(group(ann)).to_contain_text("4 alike")


async def test_alike_requests_of_many_sessions_are_one_card_answered_at_once(inbox: Inbox) -> None:
    for index in range(4):
        await ask(inbox, f"ses_{index}", f"git push origin b{index}", agent=f"agent-{index}")
    await ask(inbox, "ses_0", "git pull")
    ann = await visit_whole(inbox)
    card = group(ann)
    await expect(card).to_contain_text("4 alike")
    await expect(card.locator(".differs")).to_have_text(["b0", "b1", "b2", "b3"])
    await expect(card.locator(".group-members")).to_contain_text("calls itself “agent-3”")
    await expect(ann.page.locator(".entry")).to_have_count(2)
    assert await barriers(ann.page) == []
    await ann.press("4 alike", "Allow 4 once")
    await expect(ann.row("4 alike")).to_contain_text("Allowed 4")
    assert len(ann.many) == 1
    assert [await outcome(inbox, f"ses_{index}", f"b{index}") for index in range(4)] == ["allowed"] * 4
    assert await outcome(inbox, "ses_0", "pull") is None


async def test_who_comes_later_is_not_answered_with_a_group_that_was_drawn_before(inbox: Inbox) -> None:
    await ask(inbox, "ses_1", "git push origin a", "git push origin b")
    ann = await inbox.visit("ann")
    await expect(group(ann)).to_have_attribute("data-armed", "")
    await ask(inbox, "ses_2", "git push origin late")
    await expect(ann.page.locator(".entry").filter(has_not_text="alike")).to_contain_text("late")
    await expect(group(ann)).to_contain_text("1 more like these is not in this group")
    await ann.press("2 alike", "Allow 2 once")
    await expect(ann.row("2 alike")).to_contain_text("Allowed 2")
    assert [await outcome(inbox, "ses_1", one) for one in ("a", "b")] == ["allowed", "allowed"]
    assert await outcome(inbox, "ses_2", "late") is None


async def test_a_group_that_others_push_down_stays_as_it_was_while_more_of_them_come(inbox: Inbox) -> None:
    await ask(inbox, "ses_1", "git push origin a", "git push origin b")
    ann = await inbox.visit("ann", viewport={"width": 1200, "height": 3000})
    await expect(ann.page.locator("#connection")).to_have_attribute("data-state", "live")
    first = group(ann).filter(has=ann.page.locator("[data-member=a]"))
    await expect(first).to_have_attribute("data-armed", "")
    for number in range(1, 6):
        # Attended ones end sooner, and stand above.
        await ask(inbox, "ses_2", f"git push origin late{number}")
    await expect(first).to_contain_text("5 more like these are not in this group")
    await expect(first).to_contain_text("2 alike")
    await ann.press_on(first, "Allow 2 once")
    await expect(ann.row("git push origin a")).to_contain_text("Allowed 2")
    assert [await outcome(inbox, "ses_2", f"late{number}") for number in range(1, 6)] == [None] * 5


@pytest.mark.slow
async def test_who_came_later_is_added_on_request_and_read_before_the_answer(inbox: Inbox) -> None:
    await ask(inbox, "ses_1", "git push origin a", "git push origin b")
    ann = await inbox.visit("ann")
    await expect(group(ann)).to_have_attribute("data-armed", "")
    await ask(inbox, "ses_2", "git push origin late")
    await group(ann).get_by_role("button", name="Add it").click()
    await expect(group(ann)).to_contain_text("3 alike")
    await ann.press("3 alike", "Allow 3 once")
    await expect(group(ann)).to_contain_text("Allowed 3")
    assert await outcome(inbox, "ses_2", "late") == "allowed"


async def test_a_long_group_is_scrolled_through_before_it_can_be_allowed(inbox: Inbox) -> None:
    await ask(inbox, "ses_1", *(f"git push origin b{index}" for index in range(30)))
    ann = await visit_whole(inbox, viewport={"width": 390, "height": 700})
    await ann.open("30 alike")
    card = group(ann)
    allow = card.get_by_role("button", name="Allow 30 once")
    await expect(allow).to_be_attached()
    await ann.page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
    await expect(card).to_have_attribute("data-steady", "")
    await expect(allow).to_have_attribute("aria-disabled", "true")
    await allow.click(force=True)
    assert ann.many == []
    bottom = await ann.page.evaluate("document.documentElement.scrollHeight")
    for top in range(0, bottom, 300):
        await ann.page.evaluate("top => new Promise(done => { scrollTo(0, top); setTimeout(done, 40); })", top)
    await ann.press("30 alike", "Allow 30 once")
    await expect(card).to_contain_text("Allowed 30")


async def test_what_somebody_else_answered_meanwhile_is_told_with_the_result(inbox: Inbox) -> None:
    await ask(inbox, "ses_1", *(f"git push origin b{index}" for index in range(3)), cascade_reject="none")
    ann = await inbox.visit("ann", None)
    await ann.page.route("**/v1/events*", lambda route: route.abort())
    await ann.go()
    await expect(group(ann)).to_have_attribute("data-armed", "")
    await ann.page.route("**/v1/pending?form=row", lambda route: route.abort())
    await expect(ann.page.locator("#connection")).to_contain_text("Reconnecting")
    await (await inbox.session("ses_1")).reply("b1", "reject", actor=BOB)
    await ann.press("3 alike", "Allow 3 once")
    await expect(group(ann)).to_contain_text("Allowed 2, 1 was answered by somebody else bob")
    await expect(group(ann).locator("[data-member=b1]")).to_contain_text("Rejected by bob")


@pytest.mark.slow
async def test_one_of_a_group_is_opened_where_it_stands(inbox: Inbox) -> None:
    await ask(inbox, "ses_1", "git push origin a", "git push origin b", cwd="/srv/shop")
    ann = await inbox.visit("ann")
    line = group(ann).locator("[data-member=b]")
    await line.get_by_role("button", name="Open").click()
    await expect(line.locator(".opened .command")).to_have_text("git push origin b")
    await expect(line.locator(".opened .where")).to_contain_text("/srv/shop · shop · ses_1")


async def test_what_differs_is_shown_whatever_it_is(inbox: Inbox) -> None:
    for index, folder in enumerate(("/srv/shop", "/srv/production")):
        session = await inbox.session(f"ses_{index}", cwd=folder)
        await session.submit("bash", ["make deploy"], request_id="r", metadata={"note": f"note {index}"})
    ann = await inbox.visit("ann")
    lines = group(ann).locator(".group-members > li")
    await expect(lines.nth(1)).to_contain_text("/srv/production")
    await expect(lines.nth(1)).to_contain_text("note 1")


@pytest.mark.slow
async def test_questions_and_plans_stand_alone(inbox: Inbox) -> None:
    session = await inbox.session(dialect="claude", rules={"permissions": {}})
    for index in range(2):
        await session.submit_tool("ExitPlanMode", {"plan": "go"}, request_id=f"plan{index}")
        await session.submit_tool(
            "AskUserQuestion", {"questions": [{"question": "which?", "options": ["a"]}]}, request_id=f"q{index}"
        )
    ann = await inbox.visit("ann")
    await expect(ann.page.locator(".entry")).to_have_count(4)
    await expect(ann.page.locator(".entry .alike")).to_have_count(0)


@pytest.mark.slow
async def test_a_group_is_rejected_with_one_text_for_all(inbox: Inbox) -> None:
    for index in range(2):
        await ask(inbox, f"ses_{index}", f"git push origin b{index}")
    ann = await inbox.visit("ann")
    await ann.press("2 alike", "Reject 2…")
    await group(ann).get_by_role("textbox").fill("open a pull request")
    await group(ann).get_by_role("button", name="Reject 2 with instructions").click()
    await expect(group(ann)).to_contain_text("Rejected with instructions 2")
    assert [await outcome(inbox, f"ses_{index}", f"b{index}") for index in range(2)] == ["corrected", "corrected"]


async def test_always_says_how_many_more_it_releases_and_does(inbox: Inbox) -> None:
    await ask(inbox, "ses_0", "git push origin main")
    for index in (1, 2):
        session = await inbox.session(f"ses_{index}")
        await session.submit("bash", [f"git push --tags b{index}"], always=["git push *"], request_id=f"b{index}")
    ann = await inbox.visit("ann")
    await ann.press("git push origin main", "Always allow in shop: releases 2 more")
    await expect(ann.page.locator(".lines")).to_contain_text("git push --tags b1")
    await expect(ann.page.locator(".lines")).to_contain_text("git push --tags b2")
    assert [await outcome(inbox, f"ses_{index}", f"b{index}") for index in (1, 2)] == ["allowed", "allowed"]


@pytest.mark.slow
async def test_a_group_is_answered_by_one_key(inbox: Inbox) -> None:
    await ask(inbox, "ses_1", "git push origin a", "git push origin b")
    ann = await inbox.visit("ann")
    await expect(group(ann)).to_have_attribute("data-armed", "")
    await expect(ann.page.locator(".deck[data-quiet]")).to_have_count(1)
    await ann.page.keyboard.press("j")
    await ann.page.keyboard.press("s")
    await expect(group(ann).locator(".granting")).to_be_visible()
    await expect(group(ann)).to_have_attribute("data-armed", "")
    await ann.page.keyboard.press("s")
    await expect(group(ann)).to_contain_text("Allowed 2")
    assert await outcome(inbox, "ses_1", "b") == "allowed"


async def test_a_group_of_which_one_was_answered_before_it_is_opened_opens_all_the_same(inbox: Inbox) -> None:
    # None of the group is fetched by itself: three others come first.
    for command in ("sudo make first", "make deploy second", "npm publish third"):
        await (await inbox.session("ses_0")).submit("bash", [command], request_id=command.split()[-1])
    await ask(inbox, "ses_1", *(f"git push origin b{index}" for index in range(3)), cascade_reject="none")
    ann = await inbox.visit("ann", viewport={"width": 1280, "height": 800})
    await expect(ann.page.locator(".summary")).to_have_text("6")
    await expect(ann.page.locator("article.card[data-armed]")).to_have_count(1)
    await (await inbox.session("ses_1")).reply("b1", "reject", actor=BOB)
    await expect(ann.page.locator(".summary")).to_have_text("5")
    await ann.row("alike").locator("a").click()
    await expect(group(ann).get_by_role("button", name="Allow 2 once")).to_be_visible()
    await expect(group(ann).locator("[data-member=b1]")).to_contain_text("Rejected by bob")
