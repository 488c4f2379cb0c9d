"""Several requests answered at once: those that were read and selected, and no other."""

from __future__ import annotations

import pytest
from playwright.async_api import Locator, expect

from tests.gateway.inbox.barriers import barriers
from tests.gateway.inbox.visitors import Inbox, Visitor


async def _ask(inbox: Inbox, *programs: str) -> None:
    for index, program in enumerate(programs):
        session = await inbox.session(f"ses_{index}")
        await session.submit("bash", [f"{program} x"], request_id=program)


async def _outcomes(inbox: Inbox, *programs: str) -> list[str | None]:
    sessions = [await inbox.session(f"ses_{index}") for index in range(len(programs))]
    return [(await session.result(program)).outcome for session, program in zip(sessions, programs, strict=True)]


def _bar(visitor: Visitor) -> Locator:
    return visitor.page.locator("#chosen")


def _box(visitor: Visitor, text: str) -> Locator:
    return visitor.row(text).get_by_label("Select")


async def test_selected_requests_are_answered_with_one_press(inbox: Inbox) -> None:
    await _ask(inbox, "tool-a", "tool-b", "tool-c")
    ann = await inbox.visit("ann", viewport={"width": 1200, "height": 1400})
    await expect(ann.page.locator(".entry")).to_have_count(3)
    for text in ("tool-a", "tool-c"):
        await _box(ann, text).check()
    await expect(_bar(ann)).to_contain_text("2 selected")
    await ann.page.wait_for_function("() => document.querySelector('.deck').hasAttribute('data-quiet')")
    await _bar(ann).get_by_role("button", name="Allow 2 once").click(delay=600)
    await expect(_bar(ann)).to_contain_text("Allowed 2")
    assert await _outcomes(inbox, "tool-a", "tool-b", "tool-c") == ["allowed", None, "allowed"]


async def test_a_press_right_after_the_selection_changed_answers_nothing(inbox: Inbox) -> None:
    await _ask(inbox, "tool-a", "tool-b")
    ann = await inbox.visit("ann", viewport={"width": 1200, "height": 1400})
    await expect(ann.page.locator(".entry")).to_have_count(2)
    await ann.page.evaluate("""() => {
      for (const box of document.querySelectorAll(".select input")) box.click();
      document.querySelector("#chosen .once").click();
    }""")
    await expect(ann.page.locator("#announcer")).to_contain_text("The selection has just changed")
    assert ann.many == []


async def test_what_was_not_read_cannot_be_selected(inbox: Inbox) -> None:
    session = await inbox.session("ses_0")
    await session.submit("bash", ["\n".join(f"tool-{index}" for index in range(60))], request_id="long")
    ann = await inbox.visit("ann")
    await expect(ann.card("tool-1")).to_have_attribute("data-steady", "")
    await _box(ann, "tool-1").click(force=True)
    await expect(ann.page.locator("#announcer")).to_contain_text("Only what was read can be selected")
    await expect(_bar(ann)).to_be_hidden()
    await expect(_box(ann, "tool-1")).not_to_be_checked()


@pytest.mark.slow
async def test_a_filtered_set_that_was_read_is_selected_and_rejected_with_one_text(inbox: Inbox) -> None:
    await _ask(inbox, "tool-a", "tool-b", "other-c")
    ann = await inbox.visit("ann", viewport={"width": 1200, "height": 1400})
    await expect(ann.page.locator(".entry")).to_have_count(3)
    for text in ("tool-a", "tool-b", "other-c"):
        await ann.open(text)
        await expect(ann.card(text)).to_have_attribute("data-armed", "")
    await ann.page.get_by_role("searchbox").fill("tool-")
    await ann.page.get_by_role("button", name="Select 2 read").click()
    await _bar(ann).get_by_role("button", name="Reject 2…").click()
    await _bar(ann).get_by_role("textbox").fill("use make")
    await _bar(ann).get_by_role("button", name="Reject 2").click(delay=600)
    await expect(_bar(ann)).to_contain_text("Rejected with instructions 2")
    assert await _outcomes(inbox, "tool-a", "tool-b", "other-c") == ["corrected", "corrected", None]


@pytest.mark.slow
async def test_what_was_answered_elsewhere_leaves_the_selection(inbox: Inbox) -> None:
    await _ask(inbox, "tool-a", "tool-b")
    ann = await inbox.visit("ann", viewport={"width": 1200, "height": 1400})
    await expect(ann.page.locator(".entry")).to_have_count(2)
    await _box(ann, "tool-a").check()
    await _box(ann, "tool-b").check()
    await (await inbox.session("ses_0")).cancel("tool-a")
    await expect(_bar(ann)).to_contain_text("1 selected")


@pytest.mark.slow
async def test_a_question_and_a_plan_have_no_box(inbox: Inbox) -> None:
    session = await inbox.session(dialect="claude", rules={"permissions": {}})
    await session.submit_tool("ExitPlanMode", {"plan": "go"}, request_id="plan")
    ann = await inbox.visit("ann")
    await expect(ann.card("go")).to_be_visible()
    await expect(ann.page.locator(".select input")).to_have_count(0)


@pytest.mark.slow
async def test_a_card_is_selected_by_a_key(inbox: Inbox) -> None:
    await _ask(inbox, "tool-a")
    ann = await inbox.visit("ann")
    await expect(ann.card("tool-a")).to_have_attribute("data-armed", "")
    await ann.page.keyboard.press("j")
    await ann.page.keyboard.press("x")
    await expect(_bar(ann)).to_contain_text("1 selected")


async def _select_all(inbox: Inbox, *programs: str, wide: str | None = None) -> Visitor:
    """Ask for programs, each in a session of its own with a grant of its own offered, and select all."""
    for index, program in enumerate(programs):
        session = await inbox.session(f"ses_{index}")
        offered = ["*"] if program == wide else [f"{program} x"]
        await session.submit("bash", [f"{program} x"], always=offered, request_id=program)
    ann = await inbox.visit("ann", viewport={"width": 1200, "height": 1800})
    await expect(ann.page.locator(".entry")).to_have_count(len(programs))
    for program in programs:
        await _box(ann, program).check()
    await expect(_bar(ann)).to_contain_text(f"{len(programs)} selected")
    await _bar(ann).get_by_role("button", name="Remember").click()
    return ann


@pytest.mark.parametrize(
    ("button", "scope"), [("Allow 2 in their sessions", "session"), ("Always allow 2 in this project", "project")]
)
async def test_selected_requests_are_remembered_each_with_its_own_grant(inbox: Inbox, button: str, scope: str) -> None:
    ann = await _select_all(inbox, "tool-a", "tool-b")
    await expect(_bar(ann).get_by_role("list")).to_contain_text("tool-a x for bash in shop")
    await ann.page.wait_for_function("() => document.querySelector('.deck').hasAttribute('data-quiet')")
    await _bar(ann).get_by_role("button", name=button).click(delay=600)
    await expect(_bar(ann)).to_contain_text("Allowed 2")
    if scope == "project":
        found = [one.grant.pattern for one in await inbox.ledger.approved_in_project("shop")]
    else:
        sessions = [await inbox.session(f"ses_{index}") for index in range(2)]
        found = [one.grant.pattern for session in sessions for one in await session.approved()]
    assert sorted(found) == ["tool-a x", "tool-b x"]


async def test_a_selection_with_a_broad_grant_alone_is_not_remembered(inbox: Inbox) -> None:
    ann = await _select_all(inbox, "tool-a", "sudo", wide="sudo")
    await expect(_bar(ann)).to_contain_text("1 of 2 can only be allowed once here")
    assert await _bar(ann).get_by_role("button").count() == 1


async def test_the_grants_of_a_selection_fit_a_narrow_phone(inbox: Inbox) -> None:
    ann = await _select_all(inbox, "tool-a", "tool-b")
    await ann.page.set_viewport_size({"width": 320, "height": 640})
    assert await ann.page.evaluate("document.documentElement.scrollWidth") <= 320
    assert await barriers(ann.page) == []
