"""Answers given on a page: they count once, and every page shows their true state."""

from __future__ import annotations

import asyncio

import pytest
from playwright.async_api import Route, expect

from ledger import Timeouts
from ledger.core.events import Actor
from tests.gateway.inbox.stopped import STEADY_MS, passes, visit_stopped
from tests.gateway.inbox.visitors import Inbox
from tests.support.waiting import wait_until_async

PERSON = Actor("person", "ann", "gateway")


@pytest.mark.smoke
async def test_an_answer_on_one_page_is_told_on_every_other(inbox: Inbox) -> None:
    session = await inbox.session()
    asking = asyncio.create_task(session.ask("bash", ["git push origin main"], always=["git push *"]))
    ann, bob = await inbox.visit("ann"), await inbox.visit("bob")
    await expect(bob.card("git push origin main")).to_be_visible()
    await ann.press("git push origin main", "Allow once")
    await expect(ann.card("git push origin main")).to_contain_text("Allowed by you (once)")
    await expect(bob.card("git push origin main")).to_contain_text("Allowed by ann (once)")
    result = await asking
    assert (result.outcome, result.by.name, result.by.via) == ("allowed", "ann", "inbox")
    await expect(bob.page.get_by_text("Nothing is waiting.")).to_be_visible()
    await expect(bob.page.locator(".lines")).to_contain_text("allowed by ann (once)")


async def test_whoever_is_second_is_told_who_was_first(inbox: Inbox) -> None:
    session = await inbox.session()
    await session.submit("bash", ["git push"], request_id="r1")
    bob = await inbox.visit("bob", None)
    await bob.page.route("**/v1/events*", lambda route: route.abort())
    await bob.go()
    await expect(bob.card("git push")).to_be_visible()
    await bob.page.route("**/v1/pending*", lambda route: route.abort())
    # From now on the page receives no events.
    await expect(bob.page.locator("#connection")).to_contain_text("Reconnecting")
    await session.reply("r1", "once", actor=PERSON)
    await bob.press("git push", "Reject…")
    await bob.press("git push", "Reject and stop")
    await expect(bob.card("git push")).to_contain_text("ann answered first. Allowed by ann (once)")


async def test_an_answer_after_the_deadline_says_that_it_expired(inbox: Inbox) -> None:
    session = await inbox.session(timeouts=Timeouts(attended=6, unattended=6, cap=6))
    await session.submit("bash", ["git push"], request_id="r1")
    ann = await inbox.visit("ann", None)
    await ann.page.route("**/clients/*", lambda route: route.abort())
    await ann.go()
    await expect(ann.card("git push")).to_contain_text("deadline passed")
    await ann.press("git push", "Allow once")
    await expect(ann.card("git push")).to_contain_text("Expired: nobody answered in time")
    result = await session.result("r1")
    assert result.outcome != "allowed"


async def test_an_answer_whose_confirmation_is_lost_counts_once_and_is_confirmed_later(inbox: Inbox) -> None:
    session = await inbox.session()
    await session.submit("bash", ["git push"], request_id="r1")
    ann = await inbox.visit("ann")
    sent = 0

    async def cut(route: Route) -> None:
        nonlocal sent
        sent += 1
        if sent == 1:
            await route.fetch()  # the gateway receives it …
            await route.abort()  # … and the page does not receive the answer
        else:
            await route.continue_()

    await ann.page.route("**/reply", cut)
    await ann.press("git push", "Allow once")
    # Told by the event stream, or by sending it again: whichever reaches the page first.
    await expect(ann.card("git push")).to_contain_text("Allowed by you (once)")
    replies = [event async for event in session.events(follow_on=False) if event.type == "replied"]
    assert len(replies) == 1


async def test_an_answer_given_without_a_network_arrives_when_there_is_one(inbox: Inbox) -> None:
    session = await inbox.session()
    await session.submit("bash", ["git push"], request_id="r1")
    ann = await inbox.visit("ann")
    await expect(ann.card("git push")).to_be_visible()
    await ann.context.set_offline(True)
    await ann.press("git push", "Allow once")
    await expect(ann.card("git push")).to_contain_text("No connection")
    await expect(ann.page.locator("#connection")).to_contain_text("Reconnecting … last updated at")
    assert (await session.result("r1")).outcome is None
    await ann.context.set_offline(False)
    await expect(ann.card("git push")).to_contain_text("Allowed by you (once)")
    assert (await session.result("r1")).outcome == "allowed"


async def test_a_reload_in_the_middle_of_an_answer_says_that_it_did_not_arrive_and_sends_nothing(inbox: Inbox) -> None:
    session = await inbox.session()
    await session.submit("bash", ["git push"], request_id="r1")
    ann = await inbox.visit("ann")
    held: list[Route] = []

    async def hold(route: Route) -> None:
        held.append(route)  # it stays in flight

    await ann.page.route("**/reply", hold)
    await ann.press("git push", "Allow once")
    await expect(ann.card("git push")).to_contain_text("Sending: allow once")
    await ann.page.reload()
    await expect(ann.card("git push")).to_contain_text("Your answer “once” had not arrived")
    assert (await session.result("r1")).outcome is None
    await held[0].abort()
    await ann.page.unroute("**/reply")
    await ann.press("git push", "Allow once")
    await expect(ann.card("git push")).to_contain_text("Allowed by you (once)")


async def test_a_reload_after_the_gateway_has_heard_says_that_the_answer_arrived(inbox: Inbox) -> None:
    session = await inbox.session()
    await session.submit("bash", ["git push"], request_id="r1")
    ann = await inbox.visit("ann")
    await ann.page.route("**/v1/events*", lambda route: route.abort())
    await ann.go()
    arrived = asyncio.Event()

    async def forward(route: Route) -> None:
        await route.fetch()
        arrived.set()  # the gateway has it, and the page is loaded anew before it is told

    await ann.page.route("**/reply", forward)
    await ann.press("git push", "Allow once")
    await arrived.wait()
    await ann.page.reload()
    await expect(ann.card("git push")).to_contain_text("Allowed by you (once)")
    await expect(ann.page.locator(".lines")).to_contain_text("allowed by you (once)")
    replies = [event async for event in session.events(follow_on=False) if event.type == "replied"]
    assert len(replies) == 1


async def test_a_network_cut_in_the_middle_of_an_answer_is_said_until_it_is_known_what_became_of_it(
    inbox: Inbox,
) -> None:
    session = await inbox.session()
    await session.submit("bash", ["git push"], request_id="r1")
    ann = await inbox.visit("ann")
    await expect(ann.page.locator("#connection")).to_have_text("live")

    async def cut(route: Route) -> None:
        await ann.context.set_offline(True)
        await route.abort()

    await ann.page.route("**/reply", cut)
    await ann.press("git push", "Reject…")
    await ann.press("git push", "Reject and stop")
    await expect(ann.card("git push")).to_contain_text("“reject” may not have arrived")
    # Another person answers meanwhile: the first answer counts, and both pages show it.
    await session.reply("r1", "once", actor=PERSON)
    await ann.page.unroute("**/reply")
    await ann.context.set_offline(False)
    await expect(ann.card("git push")).to_contain_text("Allowed by")
    assert (await session.result("r1")).outcome == "allowed"


async def test_feedback_reaches_the_agent_and_the_effect_on_others_is_said_before(inbox: Inbox) -> None:
    session = await inbox.session()
    for request_id, command in (("r1", "git rebase main"), ("r2", "npm test")):
        await session.submit("bash", [command], request_id=request_id)
    ann = await inbox.visit("ann")
    await expect(ann.page.locator(".entry")).to_have_count(2)
    card = ann.card("git rebase main")
    await ann.press("git rebase main", "Reject…")
    await expect(card).to_contain_text("Without instructions the agent stops. It also rejects 1 other pending request")
    await card.get_by_role("textbox").fill("merge main instead")
    await ann.press("git rebase main", "Reject with instructions")
    await expect(ann.row("git rebase main")).to_contain_text("Rejected with instructions by you")
    await expect(ann.row("npm test")).to_contain_text("Rejected by you")
    result = await session.result("r1")
    assert result.outcome == "corrected"
    assert result.settled
    assert result.settled.message == "merge main instead"


async def test_always_grants_what_it_says_and_exactly_grants_only_what_was_asked(inbox: Inbox) -> None:
    session = await inbox.session()
    await session.submit("bash", ["git push origin main"], always=["git push *"], request_id="r1")
    await session.submit("bash", ["npm test"], always=["npm *"], request_id="r2")
    ann = await inbox.visit("ann")
    wide = await ann.remember("git push origin main")
    await expect(wide.locator(".granting p")).to_contain_text(
        "A grant also allows git push * for bash: in this session, or in all of project shop."
    )
    await ann.press("git push origin main", "Always allow in shop")
    await expect(ann.row("git push origin main")).to_contain_text("Allowed by you (always)")
    exact = await ann.remember("npm test")
    await exact.get_by_label("exactly this").check()
    await expect(exact.locator(".granting p")).to_contain_text("A grant also allows npm test for bash")
    await ann.press("npm test", "Always allow in shop")
    await expect(ann.row("npm test")).to_contain_text("Allowed by you (always)")
    grants = await inbox.ledger.approved_in_project("shop")
    assert sorted(one.grant.pattern for one in grants) == ["git push *", "npm test"]


async def test_a_card_offers_the_narrowest_first_and_marks_what_is_wide(inbox: Inbox) -> None:
    session = await inbox.session(rules=[])
    await session.submit("bash", ["npm install left-pad"], always=["npm install *"], request_id="r1")
    await session.submit("bash", ["rm -rf build"], always=["rm *"], request_id="r2")
    await session.submit("edit", ["src/a.ts"], always=["*"], request_id="r3")
    ann = await inbox.visit("ann")
    wide = await ann.remember("npm install left-pad")
    await expect(wide.locator(".granting p")).to_contain_text("A grant also allows npm install left-pad for bash")
    await expect(wide.locator(".warning.wide")).to_have_count(0)
    await wide.get_by_label("this kind").check()
    await expect(wide.locator(".granting.wide")).to_contain_text("A grant also allows npm install * for bash")
    await expect(wide.locator(".warning.wide")).to_contain_text("it allows much more than this call")
    deleting = await ann.remember("rm -rf build")
    await expect(deleting.locator(".granting p")).to_contain_text("A grant also allows rm -rf build for bash")
    await expect(deleting.locator(".reach")).to_have_count(0)
    edit = await ann.remember("src/a.ts")
    await edit.get_by_label("more").check()
    await expect(edit.locator(".granting.wide")).to_contain_text("A grant also allows every file edit")
    await ann.press("rm -rf build", "Always allow in shop")
    await expect(ann.row("rm -rf build")).to_contain_text("Allowed by you (always)")
    grants = await inbox.ledger.approved_in_project("shop")
    assert [one.grant.pattern for one in grants] == ["rm -rf build"]


async def test_what_is_remembered_can_be_bounded_and_edited(inbox: Inbox) -> None:
    session = await inbox.session()
    await session.submit("bash", ["git push origin main"], always=["git push *"], request_id="r1")
    await session.submit("bash", ["npm test"], always=["npm *"], request_id="r2")
    ann = await inbox.visit("ann")
    bounded = await ann.remember("git push origin main")
    await bounded.get_by_label("How long it is remembered").select_option("for 1 hour")
    await bounded.get_by_label("For how many calls").select_option("5 more calls")
    await ann.press("git push origin main", "Always allow in shop")
    await expect(ann.row("git push origin main")).to_contain_text("Allowed by you (always)")
    edited = await ann.remember("npm test")
    await edited.get_by_role("button", name="Edit patterns…").click()
    await edited.get_by_label("Patterns to remember, one a line").fill("make *")
    await ann.press("npm test", "Always allow in shop")
    await expect(ann.row("npm test")).to_contain_text("not sent")
    await ann.open("npm test")
    await expect(edited).to_contain_text("would not allow request `r2` itself")
    await edited.get_by_label("Patterns to remember, one a line").fill("npm test\nnpm test *")
    await ann.press("npm test", "Always allow in shop")
    await expect(ann.row("npm test")).to_contain_text("Allowed by you (always)")
    grants = {one.grant.pattern: one.grant for one in await inbox.ledger.approved_in_project("shop")}
    assert sorted(grants) == ["git push *", "npm test", "npm test *"]
    made = grants["git push *"]
    assert made.uses == 5
    assert made.expires_ms is not None
    assert 3_590_000 <= made.expires_ms - made.at_ms <= 3_600_000
    await ann.page.get_by_role("link", name="Grants").click()
    await expect(ann.page.locator("li.grant", has_text="git push *")).to_contain_text("5 of 5 uses left")


async def test_a_corrected_command_is_what_may_run(inbox: Inbox) -> None:
    session = await inbox.session(dialect="claude", rules={"permissions": {}})
    await session.submit_tool("Bash", {"command": "git push --force", "description": "push"}, request_id="r1")
    ann = await inbox.visit("ann")
    await ann.press("git push --force", "Edit…")
    await ann.card("push").get_by_role("textbox").fill("git push --force-with-lease")
    await ann.press("push", "Run this instead, once")
    await expect(ann.card("git push --force")).to_contain_text("Allowed by you (once)")
    result = await session.result("r1")
    assert result.updated_input == {"command": "git push --force-with-lease", "description": "push"}


async def test_everything_can_be_answered_by_the_keyboard_alone(inbox: Inbox) -> None:
    session = await inbox.session()
    for index, command in enumerate(("git push", "git pull", "git fetch")):
        await session.submit("bash", [command], always=[f"{command}*"], request_id=f"r{index}")
    ann = await visit_stopped(inbox, "ann", cards=3)
    keyboard = ann.page.keyboard
    await keyboard.press("?")
    await expect(ann.page.get_by_role("dialog")).to_contain_text("next, previous request")
    await keyboard.press("Escape")
    await keyboard.press("j")
    await keyboard.press("o")
    await expect(ann.row("git push")).to_contain_text("Allowed by you (once)")
    await expect(ann.card("git pull")).to_be_focused()
    await passes(ann, 2 * STEADY_MS)
    await keyboard.press("a")
    await passes(ann, 3 * STEADY_MS)
    await keyboard.press("a")
    await expect(ann.row("git pull")).to_contain_text("Allowed by you (always)")
    await passes(ann, 2 * STEADY_MS)
    await keyboard.press("r")
    await keyboard.type("not today")
    await keyboard.press("Control+Enter")
    await expect(ann.card("git fetch")).to_contain_text("Rejected with instructions by you")
    outcomes = [(await session.result(f"r{index}")).outcome for index in range(3)]
    assert outcomes == ["allowed", "allowed", "corrected"]


async def test_an_auditor_looks_on_and_has_no_buttons(inbox: Inbox) -> None:
    session = await inbox.session()
    await session.submit("bash", ["git push"], request_id="r1")
    eve = await inbox.visit("eve", role="auditor")
    await expect(eve.card("git push")).to_contain_text("Read-only")
    assert await eve.card("git push").get_by_role("button").count() == 0


async def test_a_request_that_its_agent_withdraws_says_so(inbox: Inbox) -> None:
    session = await inbox.session()
    await session.submit("bash", ["git push"], request_id="r1")
    ann = await inbox.visit("ann")
    await expect(ann.card("git push")).to_be_visible()
    await session.cancel("r1", cause="withdrawn")

    async def said() -> bool:
        return "Cancelled" in await ann.page.locator("main").inner_text()

    await wait_until_async(said, "the page to say that it was withdrawn")
