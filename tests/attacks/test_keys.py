"""Attacks on one key or one click: the agent moves the request that a person is about to answer."""

from __future__ import annotations

import pytest
from playwright.async_api import Locator, expect

from ledger import Session, Timeouts
from tests.gateway.inbox.stopped import STEADY_MS, comes, passes, visit_stopped
from tests.gateway.inbox.visitors import Inbox, Visitor

pytestmark = pytest.mark.asyncio(loop_scope="session")

SOON = Timeouts(attended=3600, unattended=3600)
"""Deadlines earlier than those of other sessions: these requests come first."""

TURN = """isHidden => {
  Object.defineProperty(document, "hidden", { configurable: true, value: isHidden });
  document.dispatchEvent(new Event("visibilitychange"));
}"""


async def waiting(inbox: Inbox, *commands: str) -> Session:
    session = await inbox.session()
    for command in commands:
        await session.submit("bash", [command], request_id=command.replace(" ", "-"), always=[f"{command}*"])
    return session


async def nothing_was_sent(visitor: Visitor, *sessions: Session) -> None:
    """Check that no answer was sent, not even a frame later."""
    await passes(visitor, 20)
    for session in sessions:
        state = await session.state()
        assert [one.outcome for one in state.settled.values() if one.reply is not None] == []
    assert visitor.sent == []


async def press(visitor: Visitor, *keys: str) -> None:
    for key in keys:
        await visitor.page.keyboard.press(key)


async def middle_of(item: Locator) -> tuple[float, float]:
    box = await item.bounding_box()
    assert box
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


async def look_away(visitor: Visitor) -> None:
    """Turn to another tab: what is open here is not being read."""
    await visitor.page.evaluate(TURN, True)


async def look_back(visitor: Visitor) -> None:
    await visitor.page.evaluate(TURN, False)


async def test_getting_a_new_request_under_the_key_that_was_meant_for_another(inbox: Inbox) -> None:
    """A card that opened by itself makes way for a worse request while nobody looks; the keys of who comes back are refused."""
    old = await waiting(inbox, "git fetch")
    ann = await visit_stopped(inbox, "ann", cards=1)
    sly = await inbox.session("ses_sly", timeouts=SOON)
    await look_away(ann)
    await sly.submit("bash", ["git push evil"], request_id="r1")
    await comes(ann, ann.card("git push evil"))
    await look_back(ann)
    await press(ann, "j", "o")
    await expect(ann.card("git push evil")).to_be_focused()
    await nothing_was_sent(ann, old, sly)
    await passes(ann, STEADY_MS - 100)
    await press(ann, "o")
    await nothing_was_sent(ann, old, sly)
    # That key came too early, so another half second without keys must pass.
    await passes(ann, STEADY_MS - 100)
    await press(ann, "o")
    await nothing_was_sent(ann, old, sly)
    await passes(ann, STEADY_MS)
    await press(ann, "o")
    await expect(ann.row("git push evil")).to_contain_text("Allowed by you (once)")


async def test_coming_first_in_the_list_while_another_card_is_read(inbox: Inbox) -> None:
    """The card that is read stays open, so its key answers it; the next opens by itself, and refuses the keys that follow."""
    old = await waiting(inbox, "git fetch")
    ann = await visit_stopped(inbox, "ann", cards=1)
    sly = await inbox.session("ses_sly", timeouts=SOON)
    await sly.submit("bash", ["git push evil"], request_id="r1")
    await comes(ann, ann.page.locator(".entry:first-child", has_text="git push evil"))
    await expect(ann.card("git push evil")).to_have_count(0)
    await press(ann, "j", "o", "o")
    assert (await old.result("git-fetch")).reply == "once"
    await expect(ann.card("git push evil")).to_be_focused()
    for _ in range(3):
        await press(ann, "o")
        await passes(ann, STEADY_MS - 100)
    assert not (await sly.state()).settled
    await passes(ann, STEADY_MS)
    assert len(ann.sent) == 1
    await press(ann, "o")
    await expect(ann.card("git push evil")).to_contain_text("Allowed by you (once)")


async def test_withdrawing_a_request_so_that_its_key_falls_on_the_next(inbox: Inbox) -> None:
    session = await waiting(inbox, "git fetch", "git pull evil")
    ann = await visit_stopped(inbox, "ann", cards=2)
    await press(ann, "j")
    await expect(ann.card("git fetch")).to_be_focused()
    await session.cancel("git-fetch", cause="withdrawn")
    await comes(ann, ann.card("git fetch").get_by_text("Cancelled"))
    await press(ann, "j", "o")
    await expect(ann.card("git pull evil")).to_be_focused()
    await nothing_was_sent(ann, session)


async def test_letting_a_withdrawn_card_fade_so_that_the_focus_jumps_to_the_next(inbox: Inbox) -> None:
    session = await waiting(inbox, "git fetch", "git pull evil")
    ann = await visit_stopped(inbox, "ann", cards=2)
    await press(ann, "j")
    await session.cancel("git-fetch", cause="withdrawn")
    await comes(ann, ann.card("git fetch").get_by_text("Cancelled"))
    jumped = ann.page.locator("article.card:focus", has_text="git pull evil")
    await comes(ann, jumped)
    await press(ann, "o", "s", "a")
    await nothing_was_sent(ann, session)
    await passes(ann, STEADY_MS)
    await press(ann, "o")
    await expect(ann.card("git pull evil")).to_contain_text("Allowed by you (once)")


async def test_withdrawing_a_request_while_its_rejection_is_typed_so_that_letters_answer_others(inbox: Inbox) -> None:
    session = await waiting(inbox, "git fetch", "git pull evil")
    ann = await visit_stopped(inbox, "ann", cards=2)
    await press(ann, "j", "r")
    await ann.page.keyboard.type("please ")
    await session.cancel("git-fetch", cause="withdrawn")
    await comes(ann, ann.card("git fetch").get_by_text("Cancelled"))
    for letter in "just do it as so often":
        await press(ann, "Space" if letter == " " else letter)
        await passes(ann, STEADY_MS // 3)
    await nothing_was_sent(ann, session)


async def test_having_the_first_card_answered_by_a_key_that_nobody_aimed(inbox: Inbox) -> None:
    session = await waiting(inbox, "git push evil")
    ann = await visit_stopped(inbox, "ann", cards=1)
    await press(ann, "a", "a", "a")
    await nothing_was_sent(ann, session)


async def test_putting_a_new_card_under_the_pointer_of_a_click(inbox: Inbox) -> None:
    await inbox.session()
    first = await waiting(inbox, "git fetch")
    ann = await visit_stopped(inbox, "ann", cards=1)
    place = await middle_of(ann.card("git fetch").get_by_role("button", name="Allow once"))
    await first.cancel("git-fetch", cause="withdrawn")
    await comes(ann, ann.page.get_by_text("Nothing is waiting."))
    await first.submit("bash", ["git clone"], request_id="r2", always=["git clone*"])
    await comes(ann, ann.card("git clone"))
    await ann.page.mouse.click(*place)
    await nothing_was_sent(ann, first)
    await passes(ann, STEADY_MS)
    await ann.page.mouse.click(*place)
    await expect(ann.card("git clone")).to_contain_text("Allowed by you (once)")


async def test_pushing_another_card_under_the_pointer_of_a_click(inbox: Inbox) -> None:
    session = await waiting(inbox, "git fetch")
    ann = await visit_stopped(inbox, "ann", cards=1)
    place = await middle_of(ann.card("git fetch").get_by_role("button", name="Allow once"))
    sly = await inbox.session("ses_sly", timeouts=SOON)
    await look_away(ann)
    # As high and as dangerous as the first, with an earlier deadline: it comes first, and opens in its place.
    await sly.submit("bash", ["git pull evil"], request_id="r1", always=["git pull evil*"])
    await comes(ann, ann.card("git pull evil"))
    await look_back(ann)
    button = ann.card("git pull evil").get_by_role("button", name="Allow once")
    await expect(button).to_be_disabled()
    assert await middle_of(button) == place
    await ann.page.mouse.click(*place)
    await nothing_was_sent(ann, session, sly)


async def test_pushing_a_row_before_the_card_that_is_about_to_be_clicked(inbox: Inbox) -> None:
    """The click answers the card that it was meant for; the one that opens in its place refuses the second click."""
    session = await waiting(inbox, "git fetch")
    ann = await visit_stopped(inbox, "ann", cards=1)
    place = await middle_of(ann.card("git fetch").get_by_role("button", name="Allow once"))
    sly = await inbox.session("ses_sly", timeouts=SOON)
    await sly.submit("bash", ["git pull evil"], request_id="r1", always=["git pull evil*"])
    await comes(ann, ann.page.locator(".entry:first-child", has_text="git pull evil"))
    await ann.page.mouse.dblclick(*place)
    assert (await session.result("git-fetch")).reply == "once"
    button = ann.card("git pull evil").get_by_role("button", name="Allow once")
    await expect(button).to_be_disabled()
    assert await middle_of(button) == place
    await ann.page.mouse.click(*place)
    await passes(ann, STEADY_MS - 100)
    await ann.page.mouse.click(*place)
    await passes(ann, 20)
    assert len(ann.sent) == 1
    assert not (await sly.state()).settled


async def test_withdrawing_the_open_request_so_that_the_next_opens_under_the_pointer(inbox: Inbox) -> None:
    session = await waiting(inbox, "git fetch", "git pull evil")
    ann = await visit_stopped(inbox, "ann", cards=2)
    place = await middle_of(ann.card("git fetch").get_by_role("button", name="Allow once"))
    await session.cancel("git-fetch", cause="withdrawn")
    await comes(ann, ann.card("git pull evil"))
    button = ann.card("git pull evil").get_by_role("button", name="Allow once")
    await expect(button).to_be_disabled()
    assert await middle_of(button) == place
    await ann.page.mouse.click(*place)
    await nothing_was_sent(ann, session)


async def test_pushing_another_row_under_the_pointer_of_a_click(inbox: Inbox) -> None:
    """A row opens its card, and answers nothing; its card refuses the click that follows."""
    session = await waiting(inbox, "git fetch", "git pull")
    ann = await visit_stopped(inbox, "ann", cards=2)
    place = await middle_of(ann.row("git fetch").locator("a"))
    sly = await inbox.session("ses_sly", timeouts=SOON)
    await sly.submit("bash", ["git pull evil"], request_id="r1", always=["git pull evil*"])
    await comes(ann, ann.row("git pull evil"))
    assert await middle_of(ann.row("git pull evil").locator("a")) == place
    await ann.page.mouse.click(*place)
    await expect(ann.card("git pull evil")).to_be_visible()
    await press(ann, "o", "Enter")
    await ann.page.mouse.click(*await middle_of(ann.card("git pull evil").get_by_role("button", name="Allow once")))
    await nothing_was_sent(ann, session, sly)


@pytest.mark.parametrize("how", ["click", "swipe"])
async def test_pushing_another_row_under_what_selects_one(inbox: Inbox, how: str) -> None:
    """A row that has just come there is not selected: what is selected is what the person saw there."""
    session = await waiting(inbox, "git fetch", "git pull")
    ann = await visit_stopped(inbox, "ann", cards=2)
    place = await middle_of(ann.row("git fetch").get_by_label("Select"))
    sly = await inbox.session("ses_sly", timeouts=SOON)
    await sly.submit("bash", ["git pull evil"], request_id="r1", always=["git pull evil*"])
    row = ann.row("git pull evil")
    await comes(ann, row)
    assert await middle_of(row.get_by_label("Select")) == place

    async def select() -> None:
        if how == "click":
            await ann.page.mouse.click(*place)
            return
        finger = {"pointerType": "touch", "clientX": 150, "clientY": place[1]}
        await row.locator("a").dispatch_event("pointerdown", finger)
        await row.dispatch_event("pointermove", {**finger, "clientX": 220})
        await row.dispatch_event("pointerup", finger)

    await select()
    await passes(ann, 60)
    await expect(row.get_by_label("Select")).not_to_be_checked()
    await expect(ann.page.locator("#announcer")).to_have_text("The list has just changed. Check it, then select again.")
    await passes(ann, STEADY_MS)
    await select()
    await expect(row.get_by_label("Select")).to_be_checked()
    await nothing_was_sent(ann, session, sly)


async def test_getting_a_double_click_to_confirm_what_the_first_click_opened(inbox: Inbox) -> None:
    session = await inbox.session(dialect="claude", rules={"permissions": {}})
    await session.submit_tool("Bash", {"command": "git push --force"}, request_id="r1")
    ann = await visit_stopped(inbox, "ann", cards=1)
    await ann.card("git push").get_by_role("button", name="Edit…").click()
    await ann.page.mouse.click(*await middle_of(ann.card("git push").get_by_role("button", name="Run this instead")))
    await nothing_was_sent(ann, session)


async def test_filling_the_screen_while_another_tab_is_looked_at(inbox: Inbox) -> None:
    session = await waiting(inbox, "git push evil")
    ann = await visit_stopped(inbox, "ann", cards=1)
    await press(ann, "j")
    await ann.page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    await press(ann, "o")
    await nothing_was_sent(ann, session)
    await passes(ann, 2 * STEADY_MS)
    await press(ann, "o")
    await expect(ann.card("git push evil")).to_contain_text("Allowed by you (once)")


async def test_an_honest_person_goes_from_card_to_card_as_fast_as_they_open(inbox: Inbox) -> None:
    """An answer opens the next card, whose keys count half a second later."""
    session = await waiting(inbox, "git fetch", "git pull", "git status")
    ann = await visit_stopped(inbox, "ann", cards=3)
    await press(ann, "j", "o")
    await passes(ann, STEADY_MS + 1)
    await press(ann, "a")
    await passes(ann, STEADY_MS + 1)
    await press(ann, "a")
    await passes(ann, STEADY_MS + 1)
    await press(ann, "r")
    await ann.page.keyboard.type("not today")
    await passes(ann, STEADY_MS + 1)
    await press(ann, "Control+Enter")
    for name, reply in (("git-fetch", "once"), ("git-pull", "always"), ("git-status", "reject")):
        assert (await session.result(name)).reply == reply
