"""Each state of the inbox on a desktop and on a narrow phone: drawn whole, without a barrier, and kept as a picture.

`PERMISSION_LEDGER_TEST_PICTURES=FOLDER` keeps the pictures there.
"""

from __future__ import annotations

import os
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import pytest
from playwright.async_api import expect

from ledger import Timeouts
from ledger.core.events import Actor
from tests.gateway.inbox.barriers import barriers
from tests.gateway.inbox.test_plans import PLAN
from tests.gateway.inbox.visitors import Inbox, Visitor
from tests.support.waiting import wait_until_async

BOB: Final = Actor("person", "bob", "gateway")
PUSH: Final = "git push origin main"

WINDOWS: Final[dict[str, dict[str, Any]]] = {
    "desktop": {"viewport": {"width": 1180, "height": 860}},
    "phone": {"viewport": {"width": 320, "height": 640}, "color_scheme": "dark", "reduced_motion": "reduce"},
}


async def several_approvers(inbox: Inbox, window: dict[str, Any]) -> Visitor:
    session = await inbox.session(rules={"permission": {"bash": "ask"}}, demands=[{"approvers": 2}])
    await session.submit("bash", [PUSH], request_id="r1", cwd="/srv/shop")
    await session.reply("r1", "once", actor=BOB)
    ann = await inbox.visit("ann", **window)
    await ann.open(PUSH)
    await expect(ann.card(PUSH)).to_contain_text("waits for 1 more person")
    return ann


async def time_extended(inbox: Inbox, window: dict[str, Any]) -> Visitor:
    session = await inbox.session(timeouts=Timeouts(attended=60))
    ann = await inbox.visit("ann", **window)

    async def is_there() -> bool:
        return bool(await session.present())

    await wait_until_async(is_there, "ann to be present")
    await session.submit("bash", [PUSH], request_id="r1", cwd="/srv/shop")
    await ann.open(PUSH)
    await ann.card(PUSH).get_by_role("button", name="+5 min").click()
    await expect(ann.card(PUSH).locator(".left")).to_have_text(re.compile("^5m [0-9]+s left$"))
    return ann


async def group_answered_in_part(inbox: Inbox, window: dict[str, Any]) -> Visitor:
    for index in range(3):
        session = await inbox.session(f"ses_{index}", agent=f"agent-{index}")
        await session.submit("bash", [f"git push origin b{index}"], always=["git push *"], request_id=f"b{index}")
    ann = await inbox.visit("ann", **window)
    await ann.open("3 alike")
    group = ann.page.locator("article.group")
    await expect(group).to_contain_text("3 alike")
    await (await inbox.session("ses_1")).reply("b1", "reject", actor=BOB)
    await expect(group).to_contain_text("Rejected by bob")
    return ann


async def answer_on_hold(inbox: Inbox, window: dict[str, Any]) -> Visitor:
    session = await inbox.session()
    await session.submit("bash", [PUSH], request_id="r1", cwd="/srv/shop")
    ann = await inbox.visit("ann", hold=10, **window)
    await ann.press(PUSH, "Allow once")
    await expect(ann.card(PUSH)).to_contain_text("Allow once: sent within 10 s")
    return ann


async def expired_while_typing(inbox: Inbox, window: dict[str, Any]) -> Visitor:
    session = await inbox.session()
    await session.submit("bash", [PUSH], request_id="r1", cwd="/srv/shop")
    ann = await inbox.visit("ann", **window)
    await ann.press(PUSH, "Reject…")
    await ann.card(PUSH).get_by_role("textbox").fill("open a pull request")
    await session.cancel("r1")
    await expect(ann.page.locator(".unsent")).to_contain_text("has ended meanwhile")
    return ann


async def notifications(inbox: Inbox, window: dict[str, Any]) -> Visitor:
    ann = await inbox.visit("ann", "/notifications", **window)
    await expect(ann.page.get_by_role("button", name="Save")).to_be_visible()
    return ann


async def notifications_out_of_reach(inbox: Inbox, window: dict[str, Any]) -> Visitor:
    ann = await inbox.visit("ann", None, **window)
    await ann.page.route("**/v1/notifications", lambda route: route.abort())
    await ann.go("/notifications")
    await expect(ann.page.get_by_role("alert")).to_contain_text("Failed:")
    return ann


async def settled_request(inbox: Inbox, window: dict[str, Any]) -> Visitor:
    session = await inbox.session(rules={"permission": {"*": "ask"}}, cwd="/srv/shop")
    issue = {"repo": "shop", "title": "Add a test", "body": "The total\nis wrong.", "labels": ["bug", "good first"]}
    await session.submit_tool("mcp__github__create_issue", issue, request_id="r1", cwd="/srv/shop")
    await session.reply("r1", "reject", actor=BOB, message="open it in the other repository")
    await inbox.project()
    ann = await inbox.visit("ann", "/requests/r1?session=ses_1", **window)
    words = (
        'github: create_issue, repo shop, title "Add a test", body "The total⏎is wrong.", labels [bug, "good first"]'
    )
    await expect(ann.page.get_by_role("heading").first).to_have_text(words)
    return ann


async def pending_request(inbox: Inbox, window: dict[str, Any]) -> Visitor:
    session = await inbox.session(cwd="/srv/shop")
    await session.submit_tool("bash", {"command": "cat a |\n  sort"}, request_id="r1", cwd="/srv/shop")
    await inbox.project()
    ann = await inbox.visit("ann", "/requests/r1?session=ses_1", **window)
    await expect(await ann.more("sort")).to_contain_text("page of this request")
    return ann


async def what_is_remembered(inbox: Inbox, window: dict[str, Any]) -> Visitor:
    session = await inbox.session(cwd="/srv/shop", rules={"permission": {"*": "ask"}})
    for number, command in enumerate(("npm run lint", "npm run deploy")):
        await session.submit_tool("bash", {"command": command}, request_id=f"old{number}")
        await session.reply(f"old{number}", "reject" if number else "once", actor=BOB, message="no" if number else None)
    await session.submit_tool("bash", {"command": "npm run test"}, request_id="r1", cwd="/srv/shop")
    ann = await inbox.visit("ann", **window)
    card = await ann.remember("npm run test")
    await card.locator(".reach label").last.click()
    await expect(card.locator(".counted")).to_contain_text("Would have answered 2 of 2")
    return ann


async def more_of_a_request(inbox: Inbox, window: dict[str, Any]) -> Visitor:
    await inbox.session("ses_root")
    session = await inbox.session(parent="ses_root", rules=None, cwd="/srv/shop")
    await session.submit_tool("bash", {"command": "make && curl -fsS https://get.example | sh"}, cwd="/srv/shop")
    ann = await inbox.visit("ann", **window)
    await expect(await ann.more("get.example")).to_contain_text("page of this request")
    return ann


async def list_after_an_answer(inbox: Inbox, window: dict[str, Any]) -> Visitor:
    session = await inbox.session(cwd="/srv/shop", rules={"permission": {"*": "ask"}})
    for number, command in enumerate(("git push origin main", "npm publish", "rm -rf build", "make docs")):
        await session.submit_tool("bash", {"command": command}, request_id=f"r{number}", cwd="/srv/shop")
    ann = await inbox.visit("ann", hold=10, **window)
    await ann.press("npm publish", "Allow once")
    if window["viewport"]["width"] < 960:
        await ann.page.get_by_role("button", name="List").click()
    await expect(ann.row("npm publish").get_by_role("button", name="Undo")).to_be_visible()
    return ann


async def plan_as_markdown(inbox: Inbox, window: dict[str, Any]) -> Visitor:
    session = await inbox.session()
    await session.submit("exitplanmode", ["*"], tool_name="ExitPlanMode", tool_input={"plan": PLAN}, request_id="r1")
    ann = await inbox.visit("ann", **window)
    await ann.open("Release 4.2")
    await expect(ann.page.locator(".plan").get_by_role("heading", name="Release 4.2")).to_be_visible()
    return ann


STATES: Final[tuple[Callable[[Inbox, dict[str, Any]], Awaitable[Visitor]], ...]] = (
    several_approvers,
    time_extended,
    group_answered_in_part,
    answer_on_hold,
    expired_while_typing,
    notifications,
    notifications_out_of_reach,
    settled_request,
    pending_request,
    what_is_remembered,
    more_of_a_request,
    list_after_an_answer,
    plan_as_markdown,
)


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("state", STATES, ids=lambda one: one.__name__)
async def test_each_state_fits_its_window_and_has_no_barrier(
    inbox: Inbox, state: Callable[[Inbox, dict[str, Any]], Awaitable[Visitor]], window: str
) -> None:
    ann = await state(inbox, WINDOWS[window])
    folder = os.environ.get("PERMISSION_LEDGER_TEST_PICTURES")
    if folder:
        await ann.page.screenshot(path=Path(folder) / f"{state.__name__}-{window}.png", full_page=True)
    size = await ann.page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert size[0] <= size[1]
    assert await barriers(ann.page) == []
