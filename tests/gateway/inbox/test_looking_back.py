"""Replays of sessions: their events, their state at any moment, and grants that end."""

from __future__ import annotations

import pytest
from playwright.async_api import expect

from ledger import ExpiredError, Timeouts
from ledger.core.events import Actor
from tests.gateway.inbox.visitors import Inbox
from tests.support.waiting import wait_until_async


async def story(inbox: Inbox) -> None:
    """Eight events: opened, two asked, one allowed for always with the other following, one asked and rejected."""
    session = await inbox.session("ses_story")
    for request_id, command in (("r1", "npm install"), ("r2", "npm test")):
        await session.submit("bash", [command], always=["npm *"], request_id=request_id)
    await session.reply("r1", "session", actor="ann")
    await session.submit("bash", ["git push"], request_id="r3")
    await session.reply("r3", "reject", actor="ann")
    await inbox.project()


async def test_the_slider_shows_the_state_at_each_moment(inbox: Inbox) -> None:
    await story(inbox)
    ann = await inbox.visit("eve", "/sessions/ses_story", role="auditor")
    page = ann.page
    slider, state = page.get_by_role("slider"), page.locator(".moment")
    await expect(state.get_by_role("heading", level=2)).to_have_text("Now")
    await expect(state).to_contain_text("Settled by then: 2 allowed, 1 rejected.")
    await slider.fill("3")
    await expect(state.get_by_role("heading", level=2)).to_have_text("After event 3")
    await expect(state).to_contain_text("Waiting 2")
    await expect(state).to_contain_text("Nothing was approved.")
    assert page.url.endswith("/sessions/ses_story#3")
    await slider.press("ArrowRight")
    await slider.press("ArrowRight")
    await expect(state).to_contain_text("npm * session, by ann")
    await page.get_by_role("button", name="Now", exact=True).click()
    await expect(state.get_by_role("heading", level=2)).to_have_text("Now")
    assert page.url.endswith("/sessions/ses_story")


async def test_every_event_says_who_and_why_and_a_link_leads_to_it(inbox: Inbox) -> None:
    await story(inbox)
    ann = await inbox.visit("eve", "/sessions/ses_story#4", role="auditor")
    page = ann.page
    await expect(page.locator(".event .sentence")).to_have_count(8)
    chosen = page.locator(".event-body[aria-pressed=true]")
    await expect(chosen).to_contain_text("ann allowed bash `npm install` (session), remembered for the session")
    await expect(page.locator(".event-detail")).to_contain_text("Event 4")
    followed = page.locator(".event", has_text="(session, following r1)")
    await expect(followed).to_have_count(1)
    assert await followed.locator("path.branch").count() >= 1
    await page.locator(".event-body").first.click()
    assert page.url.endswith("#1")
    await page.keyboard.press("ArrowRight")
    await expect(page.locator(".event-detail")).to_contain_text("Event 2")
    assert page.url.endswith("#2")


async def test_an_answer_that_the_agents_side_told_of_says_so(inbox: Inbox) -> None:
    session = await inbox.session("ses_story")
    await session.submit("bash", ["npm install"], request_id="r1")
    await session.reply("r1", "once", actor=Actor("agent", "ann", "told", "tok_1"), told="editor")
    await inbox.project()
    eve = await inbox.visit("eve", "/sessions/ses_story#3", role="auditor")
    detail = eve.page.locator(".event-detail")
    await expect(detail).to_contain_text("ann (told, not seen: answered at editor) allowed bash `npm install` (once)")
    await expect(detail).to_contain_text("ann, told by the agent's side, not seen")
    await expect(detail).to_contain_text("answered at editor, as the agent's side says: the ledger did not see it")
    await expect(detail).to_contain_text("tok_1")


async def test_the_axis_draws_deadlines_where_they_lie_and_what_an_answer_took_along(inbox: Inbox) -> None:
    session = await inbox.session("ses_story", timeouts=Timeouts(unattended=86_400))
    for request_id, command in (("r1", "npm install"), ("r2", "npm test"), ("r3", "git push")):
        await session.submit("bash", [command], always=["npm *"], request_id=request_id)
    await session.reply("r1", "session", actor="ann")
    eve = await inbox.visit("eve", "/sessions/ses_story", role="auditor")
    axis = eve.page.locator(".axis")
    await expect(axis.locator(".asked")).to_have_count(3)
    await expect(axis.locator(".ended.good")).to_have_count(2)
    await expect(axis.locator(".branch.good")).to_have_count(1)
    # Of the one that waits: the line to its deadline, which lies ahead of the last event, and what is left of it.
    await expect(axis.locator(".left-text")).to_have_text("23h 59m")
    ahead, due = await axis.locator(".ahead").bounding_box(), await axis.locator(".deadline").bounding_box()
    assert ahead
    assert due
    assert ahead["x"] < due["x"] < ahead["x"] + ahead["width"]
    # What came after the chosen event is veiled, and a press on the axis chooses.
    await axis.click(position={"x": 9, "y": 20})
    await expect(eve.page.locator(".moment-label")).to_contain_text("Event 1 of 7")
    await expect(axis.locator(".later")).to_have_count(1)
    assert eve.page.url.endswith("#1")


async def test_a_deadline_that_nobody_met_lies_between_the_events_around_it(inbox: Inbox) -> None:
    session = await inbox.session("ses_story", timeouts=Timeouts(attended=1, unattended=1, cap=1))
    with pytest.raises(ExpiredError):
        await session.ask("bash", ["git push"])
    await session.submit("bash", ["ls"])
    eve = await inbox.visit("eve", "/sessions/ses_story", role="auditor")
    axis = eve.page.locator(".axis")
    due, end = await axis.locator(".deadline.missed").bounding_box(), await axis.locator(".ended.gone").bounding_box()
    begun = await axis.locator(".asked").bounding_box()
    assert begun
    assert due
    assert end
    assert begun["x"] < due["x"] <= end["x"] + end["width"]


async def test_the_chain_of_a_session_is_verified_where_it_is_shown(inbox: Inbox) -> None:
    await story(inbox)
    ann = await inbox.visit("eve", "/sessions/ses_story", role="auditor")
    await expect(ann.page.locator(".mark-verified")).to_have_text("✓ chain of 8 verified")


async def test_what_waits_in_a_session_can_be_answered_on_its_page_and_the_page_goes_on(inbox: Inbox) -> None:
    session = await inbox.session()
    await session.submit("bash", ["git push"], request_id="r1")
    ann = await inbox.visit("ann", "/sessions/ses_1")
    line = ann.page.locator(".fold-waiting summary")
    await expect(line).to_have_text("1 waiting: bash git push")
    # The history comes first: the cards are there when somebody opens them.
    await expect(ann.page.locator("article.card")).to_have_count(0)
    await expect(ann.page.get_by_role("link", name="In the inbox")).to_have_attribute(
        "href", "/?find=session%3A%22ses_1%22"
    )
    await line.click()
    await ann.press("git push", "Allow once")
    await expect(ann.card("git push")).to_contain_text("Allowed by you (once)")
    await expect(ann.page.locator(".event.good")).to_have_count(1)
    await session.submit("bash", ["ls"], request_id="r2")
    await expect(
        ann.page.locator(".event", has_text="r2").or_(ann.page.locator(".event", has_text="`ls`"))
    ).to_have_count(1)


async def test_past_sessions_are_found_by_project_agent_person_outcome_and_date(inbox: Inbox) -> None:
    await story(inbox)
    other = await inbox.session("ses_other", project="bank", agent="audit")
    await other.submit("bash", ["rm x"], request_id="r1")
    await inbox.project()
    ann = await inbox.visit("ann", "/sessions", role="auditor")
    names = ann.page.locator(".session-row .session-name a")
    await expect(names).to_have_text(["ses_other", "ses_story"])
    for label, value, found in (
        ("Project", "bank", "ses_other"),
        ("Agent", "build", "ses_story"),
        ("Answered by", "ann", "ses_story"),
        ("Since", "2020-01-01", None),
        ("Until", "2020-01-01", ""),
    ):
        await ann.page.get_by_label(label).fill(value)
        wanted = ["ses_other", "ses_story"] if found is None else [found] if found else []
        await expect(names).to_have_text(wanted)
        await ann.page.get_by_label(label).fill("")
    await ann.page.get_by_label("Ended as").select_option("denied")
    await expect(names).to_have_text(["ses_other"])
    assert ann.page.url.endswith("/sessions?outcome=denied")
    await names.first.click()
    await expect(ann.page.get_by_role("heading", name="ses_other")).to_be_visible()


async def test_a_sessions_row_says_who_worked_where_and_how_its_last_calls_ended(inbox: Inbox) -> None:
    await story(inbox)
    waiting = await inbox.session("ses_waiting", project="bank", agent="audit", parent="ses_story")
    await waiting.submit("bash", ["rm x"], request_id="w1")
    await waiting.submit("bash", ["git push"], request_id="w2")
    await inbox.project()
    ann = await inbox.visit("ann", "/sessions")
    rows = ann.page.locator(".session-row")
    calls = rows.nth(1).locator(".last-calls li")
    await expect(calls).to_have_text(
        [
            "bash git pushRejected by you",
            "bash npm testAllowed by you (session)",
            "bash npm installAllowed by you (session)",
        ]
    )
    await expect(rows.first.locator(".last-calls li")).to_have_text(["bash git pushWaiting", "bash rm xDenied by rule"])
    # Whatever is named leads to it.
    places = await rows.first.locator("a").evaluate_all("links => links.map((one) => one.getAttribute('href'))")
    assert places == [
        "/sessions?agent=audit",
        "/sessions?project=bank",
        "/?find=session%3A%22ses_waiting%22",
        "/requests/w2?session=ses_waiting",
        "/requests/w1?session=ses_waiting",
        "/sessions/ses_waiting",
        "/sessions/ses_story",
    ]
    await rows.first.get_by_role("link", name="bank").click()
    await expect(rows).to_have_count(1)
    await expect(ann.page.get_by_label("Project")).to_have_value("bank")


async def test_a_grant_leads_to_the_request_that_made_it(inbox: Inbox) -> None:
    session = await inbox.session()
    await session.submit("bash", ["npm test"], always=["npm *"], request_id="r1")
    await session.reply("r1", "session", actor="ann")
    ann = await inbox.visit("ann", "/grants")
    await ann.page.locator(".grant").get_by_role("link", name="r1").click()
    await expect(ann.page.get_by_text("Allowed by you (session)")).to_be_visible()


async def test_a_revoked_grant_is_gone_at_once(inbox: Inbox) -> None:
    session = await inbox.session()
    await inbox.ledger.grant_in_project("shop", "bash", "git push *", reason="release week", actor="ann")
    ann = await inbox.visit("ann", "/grants")
    row = ann.page.locator(".grant", has_text="git push *")
    await expect(row).to_contain_text("in project shop · by ann")
    await expect(row).to_contain_text("release week")
    await row.get_by_role("button", name="Revoke bash git push *").click()
    await row.get_by_role("textbox").fill("release is out")
    await row.get_by_role("button", name="Revoke", exact=True).click()
    await expect(row).to_have_count(0)
    assert (await session.submit("bash", ["git push x"])).outcome is None


async def test_an_administrator_makes_and_revokes_tokens(inbox: Inbox) -> None:
    root = await inbox.visit("root", "/account", role="admin")
    page = root.page
    await page.get_by_label("Name").fill("ci")
    await page.get_by_label("Role").select_option("agent")
    await page.get_by_role("button", name="Create a token").click()
    text = await page.locator(".status.warn code").inner_text()
    assert (await inbox.ledger.tokens.find(text)).role == "agent"
    await page.locator(".grant", has_text="ci").get_by_role("button").click()

    async def ended() -> bool:
        return not [one for one in await inbox.ledger.tokens.all() if one.name == "ci" and one.revoked_ms is None]

    await wait_until_async(ended, "the token of ci to be revoked")


async def test_a_call_whose_runner_died_may_have_run_and_is_released_on_the_second_press(inbox: Inbox) -> None:
    session = await inbox.session("ses_story")
    await session.submit("bash", ["npm install"], request_id="r1")
    await session.reply("r1", "once", actor="ann")
    await session.claim("r1", runner="job-7")
    eve = await inbox.visit("eve", "/sessions/ses_story", role="auditor")
    await expect(eve.page.locator(".moment")).to_contain_text("claimed by job-7")
    await expect(eve.page.locator(".moment")).to_contain_text("may have run")
    await expect(eve.page.get_by_role("button", name="Release the claim")).to_have_count(0)
    ann = await inbox.visit("ann", "/sessions/ses_story")
    await ann.page.get_by_role("button", name="Release the claim").click()
    await session.submit("bash", ["npm test"], request_id="r2")
    await expect(ann.page.locator(".moment")).to_contain_text("npm test")
    # The page was drawn again, and remembers the first press.
    sure = ann.page.get_by_role("button", name="It may have run. Release all the same")
    await expect(sure).to_be_focused()
    await sure.click()
    await expect(ann.page.locator(".moment")).not_to_contain_text("claimed by job-7")
    released = (await session.state()).settled["r1"].claim
    assert released is not None
    assert (released.status, released.number) == ("released", 1)
