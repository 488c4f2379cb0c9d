"""Failures behind a page: a reader too slow for its events, and a log that is no longer whole."""

from __future__ import annotations

import asyncio

import pytest
from playwright.async_api import Page, Route, expect

from ledger import Ledger
from ledger.stores.port import StreamKey
from tests.gateway.inbox.barriers import barriers
from tests.gateway.inbox.visitors import RULES, Inbox
from tests.support.backends import Operator, as_redis
from tests.support.servers import RealServer
from tests.support.waiting import wait_until_async

# Notes what it is told about its stream.
LISTEN = """
  window.told = [];
  const dispatch = EventTarget.prototype.dispatchEvent;
  EventTarget.prototype.dispatchEvent = function (event) {
    if (["stream.end", "resync"].includes(event.type)) window.told.push(event.type);
    return dispatch.call(this, event);
  };
"""

# A request that the page waits for without doing anything else: meanwhile nobody takes what the gateway sends.
HANG = """() => { setTimeout(() => {
  const request = new XMLHttpRequest();
  request.open("GET", "/hang", false);
  request.send();
}, 0); }"""


class Hanging:
    """A page that does nothing at all until it is let go."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._held: asyncio.Future[Route] = asyncio.get_running_loop().create_future()

    async def begin(self) -> None:
        await self._page.route("**/hang", self._hold)
        await self._page.evaluate(HANG)
        await self._held

    def _hold(self, route: Route) -> None:
        self._held.set_result(route)

    async def let_go(self) -> None:
        await (await self._held).fulfill(status=204)


async def test_a_page_that_was_too_slow_is_told_and_then_shows_everything(
    inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await inbox.session()
    for request_id, command in (("old", "git push old"), ("older", "git pull older")):
        await session.submit("bash", [command], request_id=request_id)
    monkeypatch.setattr("workers.gateway.events.streams.HINTS_BYTES_MAX", 0)
    ann = await inbox.visit("ann", None)
    await ann.page.add_init_script(LISTEN)
    await ann.go()
    await expect(ann.page.locator("#connection")).to_have_text("live")
    await expect(ann.page.locator(".entry")).to_have_count(2)
    hanging = Hanging(ann.page)
    await hanging.begin()
    for index in range(40):
        await session.submit("bash", ["git fetch"], request_id=f"more{index}")
        await session.cancel(f"more{index}", cause="withdrawn")
    await session.reply("old", "once", actor="bob")
    await session.submit("bash", ["git push new"], request_id="new")
    await hanging.let_go()

    async def told() -> bool:
        return "resync" in await ann.page.evaluate("window.told")

    await wait_until_async(told, "the page to be told that it was too slow")
    await expect(ann.page.locator("#connection")).to_have_text("live")
    await expect(ann.row("git push new")).to_be_visible()
    await expect(ann.page.locator(".summary")).to_have_text("2")
    await ann.press("git push new", "Allow once")
    await expect(ann.row("git push new")).to_contain_text("Allowed by you (once)")


async def log_of(admin: Operator, ledger: Ledger, session: str) -> tuple[str, list[tuple[bytes, dict[bytes, bytes]]]]:
    key = as_redis(ledger.store).keys.stream(StreamKey("session", session))
    return key, await admin.run("XRANGE", key, "-", "+")


async def written(ledger: Ledger) -> None:
    """Six events in `ses_torn`, none of which waits any more."""
    session = await ledger.session("ses_torn", project="shop", rules=RULES, agent="build")
    for index in range(5):
        await session.submit("bash", [f"ls {index}"])


async def test_a_log_that_lost_an_entry_is_marked_as_broken_where_it_is_shown(inbox: Inbox, admin: Operator) -> None:
    await written(inbox.ledger)
    eve = await inbox.visit("eve", "/sessions/ses_torn", role="auditor")
    mark = eve.page.locator(".mark-verified")
    await expect(mark).to_have_text("✓ chain of 6 verified")
    key, log = await log_of(admin, inbox.ledger, "ses_torn")
    await admin.run("XDEL", key, log[3][0])
    await mark.click()
    await expect(mark).to_contain_text("✗")
    broken = eve.page.locator(".broken")
    await expect(broken).to_contain_text("This session's log is not what the ledger wrote.")
    await expect(broken).to_contain_text("at event 4")
    await expect(broken).to_contain_text("permission-ledger verify ses_torn")
    assert await barriers(eve.page) == []


async def test_a_gateway_that_cannot_read_a_session_says_what_is_wrong_with_it(
    inbox: Inbox, admin: Operator, server: RealServer
) -> None:
    async with Ledger.connect(server.url) as other:
        await written(other)
        key, log = await log_of(admin, other, "ses_torn")
    await admin.run("XDEL", key, log[3][0])
    eve = await inbox.visit("eve", "/sessions/ses_torn", role="auditor")
    await expect(eve.page.get_by_role("heading", level=1)).to_have_text("ses_torn")
    await expect(eve.page.locator(".mark-verified")).to_contain_text("✗")
    await expect(eve.page.locator(".broken")).to_contain_text("at event 4")
    await expect(eve.page.locator(".slider")).to_be_hidden()
    # The rest of the inbox is none the worse for it.
    await inbox.session()
    await eve.go("/sessions/ses_1")
    await expect(eve.page.locator(".mark-verified")).to_contain_text("✓")


async def test_a_session_that_cannot_be_read_is_one_row_above_what_waits(
    inbox: Inbox, admin: Operator, server: RealServer
) -> None:
    async with Ledger.connect(server.url) as other:
        torn = await other.session("ses_torn", project="shop", rules=RULES)
        await torn.submit("bash", ["git push torn"])
        key, log = await log_of(admin, other, "ses_torn")
    await admin.run("XDEL", key, log[0][0])
    await (await inbox.session()).submit("bash", ["git push whole"])
    ann = await inbox.visit("ann")
    await expect(ann.card("git push whole")).to_be_visible()
    row = ann.page.get_by_role("list", name="Sessions that cannot be read").get_by_role("listitem")
    await expect(row).to_have_count(1)
    await expect(row).to_contain_text("Damaged: ses_torn")
    assert await barriers(ann.page) == []
