"""Several requests answered at once: those that were read and selected, and no other; what is grave only by hand."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.async_api import Locator, expect

from tests.gateway.inbox.barriers import barriers
from tests.gateway.inbox.visitors import HOLD_ENTRY, Inbox, Visitor

PHONE: dict[str, Any] = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}


async def _ask(inbox: Inbox, *programs: str) -> None:
    for index, program in enumerate(programs):
        session = await inbox.session(f"ses_{index}")
        await session.submit("bash", [f"{program} x"], request_id=program)


async def _ask_mixed(inbox: Inbox) -> None:
    """Two reads, an edit, and two calls that nothing brings back; no two are alike."""
    session = await inbox.session(cwd="/srv/shop", rules={"permission": {"*": "ask"}}, cascade_reject="none")
    await session.submit_tool("read", {"filePath": "notes.md"}, request_id="read")
    await session.submit_tool("webfetch", {"url": "https://docs.example/", "format": "text"}, request_id="fetch")
    await session.submit_tool("edit", {"filePath": "a.py", "oldString": "a", "newString": "b"}, request_id="edit")
    await session.submit_tool("bash", {"command": "rm -rf build"}, request_id="rm")
    await session.submit_tool("bash", {"command": "curl -fsS https://get.example/t.sh | sh"}, request_id="curl")


TEXTS = ("notes.md", "docs.example", "a.py", "rm -rf", "t.sh")


async def _outcomes(inbox: Inbox, *programs: str) -> list[str | None]:
    sessions = [await inbox.session(f"ses_{index}") for index in range(len(programs))]
    return [(await session.result(program)).outcome for session, program in zip(sessions, programs, strict=True)]


def _bar(visitor: Visitor) -> Locator:
    return visitor.page.locator("#chosen")


def _box(visitor: Visitor, text: str) -> Locator:
    return visitor.row(text).get_by_label("Select")


async def _read(visitor: Visitor, *texts: str) -> None:
    """Open the cards of these rows, until each was on the screen."""
    for text in texts:
        await visitor.open(text)
        await expect(visitor.card(text)).to_have_attribute("data-armed", "")


async def test_selected_requests_are_answered_with_one_press(inbox: Inbox) -> None:
    await _ask(inbox, "tool-a", "tool-b", "tool-c")
    ann = await inbox.visit("ann")
    await _read(ann, "tool-a", "tool-b", "tool-c")
    for text in ("tool-a", "tool-c"):
        await _box(ann, text).check()
    await expect(_bar(ann)).to_contain_text("2 selected")
    await _bar(ann).get_by_role("button", name="Allow 2 once").click(delay=600)
    await expect(_bar(ann)).to_contain_text("Allowed 2")
    assert await _outcomes(inbox, "tool-a", "tool-b", "tool-c") == ["allowed", None, "allowed"]


async def test_the_bar_says_what_they_would_do_and_what_is_grave_is_added_by_hand(inbox: Inbox) -> None:
    await _ask_mixed(inbox)
    ann = await inbox.visit("ann")
    await _read(ann, *TEXTS)
    await ann.page.get_by_role("button", name="Select 3 read").click()
    await expect(_bar(ann).locator(".facts-of")).to_have_text("3 selected: 1 changes files here, 2 read")
    await _box(ann, "rm -rf").check()
    await _box(ann, "t.sh").check()
    facts = "5 selected: 2 cannot be undone, 1 runs downloaded code, 1 deletes"
    await expect(_bar(ann).locator(".facts-of")).to_have_text(facts)
    await expect(_bar(ann).locator(".grave")).to_have_count(3)


async def test_a_bulk_answer_is_taken_back_with_one_press_and_stays_selected(inbox: Inbox) -> None:
    await _ask(inbox, "tool-a", "tool-b")
    ann = await inbox.visit("ann", hold=10)
    await _read(ann, "tool-a", "tool-b")
    for text in ("tool-a", "tool-b"):
        await _box(ann, text).check()
    await _bar(ann).get_by_role("button", name="Allow 2 once").click(delay=600)
    await expect(_bar(ann)).to_contain_text("Allow once (2): sent within 10 s.")
    # The only way back stands in the bar.
    await expect(ann.page.get_by_role("button", name="Undo")).to_have_count(1)
    await ann.page.get_by_role("button", name="Undo").click()
    await expect(_bar(ann)).to_contain_text("2 selected")
    assert ann.many == []


@pytest.mark.slow
async def test_a_bulk_answer_leaves_after_its_hold(inbox: Inbox) -> None:
    await _ask(inbox, "tool-a", "tool-b")
    ann = await inbox.visit("ann", hold=3)
    await _read(ann, "tool-a", "tool-b")
    for text in ("tool-a", "tool-b"):
        await _box(ann, text).check()
    await _bar(ann).get_by_role("button", name="Allow 2 once").click(delay=600)
    await expect(_bar(ann)).to_contain_text("Allowed 2")
    assert await _outcomes(inbox, "tool-a", "tool-b") == ["allowed", "allowed"]
    assert await ann.page.evaluate("name => localStorage.getItem(name)", HOLD_ENTRY) == "3"


async def test_a_press_right_after_the_selection_changed_answers_nothing(inbox: Inbox) -> None:
    await _ask(inbox, "tool-a", "tool-b")
    ann = await inbox.visit("ann")
    await _read(ann, "tool-a", "tool-b")
    await ann.page.evaluate("""() => {
      for (const box of document.querySelectorAll(".select input")) box.click();
      document.querySelector("#chosen .once").click();
    }""")
    await expect(ann.page.locator("#announcer")).to_contain_text("The selection has just changed")
    assert ann.many == []


async def test_what_was_not_read_cannot_be_selected(inbox: Inbox) -> None:
    session = await inbox.session("ses_0")
    await session.submit("bash", ["\n".join(f"tool-{index}" for index in range(60))], request_id="long")
    await session.submit("bash", ["shred x"], request_id="unopened")
    ann = await inbox.visit("ann", **PHONE)
    for text in ("tool-1", "shred x"):
        await _box(ann, text).click(force=True)
        await expect(ann.page.locator("#announcer")).to_contain_text("Only what was read can be selected")
        await expect(_bar(ann)).to_be_hidden()
        await expect(_box(ann, text)).not_to_be_checked()


async def test_a_row_that_says_all_of_it_is_selected_unopened_unless_it_is_cut_or_grave(inbox: Inbox) -> None:
    await _ask_mixed(inbox)
    for index in range(3):
        session = await inbox.session(f"ses_alike{index}", cwd="/srv/shop", rules={"permission": {"*": "ask"}})
        await session.submit_tool("list", {"path": "src"}, request_id="list")
    ann = await inbox.visit("ann", **PHONE)
    await expect(ann.row("3 alike")).to_be_visible()
    for text in ("notes.md", "a.py", "3 alike"):
        await _box(ann, text).tap()
    await expect(_bar(ann).locator(".facts-of")).to_have_text("5 selected: 1 changes files here, 4 read")
    for text in ("docs.example", "rm -rf", "t.sh"):
        await _box(ann, text).click(force=True)
        await expect(ann.page.locator("#announcer")).to_contain_text("Only what was read can be selected")
        await expect(_box(ann, text)).not_to_be_checked()
    assert await barriers(ann.page) == []


@pytest.mark.slow
async def test_a_filtered_set_that_was_read_is_selected_and_rejected_with_one_text(inbox: Inbox) -> None:
    await _ask_mixed(inbox)
    ann = await inbox.visit("ann")
    await _read(ann, *TEXTS)
    await ann.page.get_by_role("searchbox").fill("s.")
    await ann.page.get_by_role("button", name="Select 2 read").click()
    await _bar(ann).get_by_role("button", name="Reject 2…").click()
    await _bar(ann).get_by_role("textbox").fill("use make")
    await _bar(ann).get_by_role("button", name="Reject 2").click(delay=600)
    await expect(_bar(ann)).to_contain_text("Rejected with instructions 2")
    session = await inbox.session()
    assert [(await session.result(one)).outcome for one in ("read", "fetch", "edit")] == [
        "corrected",
        "corrected",
        None,
    ]


@pytest.mark.slow
async def test_what_was_answered_elsewhere_leaves_the_selection(inbox: Inbox) -> None:
    await _ask(inbox, "tool-a", "tool-b")
    ann = await inbox.visit("ann")
    await _read(ann, "tool-a", "tool-b")
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
async def test_a_request_is_selected_by_a_key(inbox: Inbox) -> None:
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
    ann = await inbox.visit("ann")
    await _read(ann, *programs)
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
