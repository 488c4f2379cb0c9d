"""The box that finds requests by words and conditions."""

from __future__ import annotations

from pathlib import Path

from playwright.async_api import expect

from tests.gateway.inbox.visitors import Inbox
from tests.support.indexing import index


async def test_the_box_finds_requests_and_leads_to_the_moment_of_their_decision(inbox: Inbox, tmp_path: Path) -> None:
    session = await inbox.session("ses_found")
    await session.submit("bash", ["git push <b>now</b>"], request_id="r1")
    await session.reply("r1", "reject", message="never on fridays", actor="ann")
    await session.submit("bash", ["make all"], request_id="r2")
    await index(inbox.ledger, tmp_path / "search.sqlite")
    eve = await inbox.visit("eve", "/sessions", role="auditor")
    box, rows = eve.page.get_by_role("searchbox", name="Find requests"), eve.page.locator(".request-row")
    await box.fill("git push by:ann")
    await expect(rows).to_have_count(1)
    await expect(rows).to_contain_text("git push <b>now</b>")
    await expect(rows).to_contain_text("never on fridays")
    await box.fill("outcome:maybe")
    await expect(eve.page.get_by_text("unknown outcome `maybe`")).to_be_visible()
    await box.fill("outcome:pending")
    await expect(rows).to_contain_text("make all")
    await box.fill("fridays")
    await expect(rows).to_contain_text("git push")
    await expect(rows.get_by_role("link", name="git push")).to_have_attribute("href", "/requests/r1?session=ses_found")
    await rows.get_by_role("link", name="ses_found").click()
    await expect(eve.page).to_have_url(f"{inbox.url}/sessions/ses_found#3")


async def test_a_cancelled_request_is_found_with_its_reason_once(inbox: Inbox, tmp_path: Path) -> None:
    session = await inbox.session("ses_found")
    await session.submit("bash", ["make all"], request_id="r1")
    await session.cancel("r1", reason="another plan")
    await index(inbox.ledger, tmp_path / "search.sqlite")
    eve = await inbox.visit("eve", "/sessions", role="auditor")
    await eve.page.get_by_role("searchbox", name="Find requests").fill("make")
    outcome = eve.page.locator(".request-row .hint", has_text="Cancelled")
    await expect(outcome).to_contain_text("another plan")
    assert ": :" not in await outcome.inner_text()


async def test_without_an_index_the_box_says_what_to_start(inbox: Inbox) -> None:
    eve = await inbox.visit("eve", "/sessions", role="auditor")
    await eve.page.get_by_role("searchbox", name="Find requests").fill("git")
    await expect(eve.page.get_by_text("start `permission-ledger worker indexer`")).to_be_visible()
