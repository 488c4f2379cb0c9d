"""All clients at once on one ledger: one inbox, one replay, one chain to verify."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import async_playwright, expect

from ledger import Ledger
from tests.agents.together import ANSWERS, ASKED, Together, all_wait
from tests.gateway.inbox.fixtures import ARGUMENTS
from tests.gateway.inbox.visitors import Inbox, Visitor
from tests.support.browsers import chromium
from tests.support.command_line import CommandLine
from tests.support.gateways import RunningGateway
from tests.support.servers import RealServer
from tests.support.waiting import wait_until_async

pytestmark = [pytest.mark.agents("claude", "opencode", "gemini", "codex"), pytest.mark.timeout(400)]

LONG_MS = 60_000
REPLIES = {name: reply for name, (reply, _) in ANSWERS.items()}
BUTTONS = {"once": "Allow once", "session": "Allow in this session", "always": "Always allow in "}


@pytest.fixture
def gateway(server: RealServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunningGateway]:
    """A gateway that browsers can reach."""
    running = RunningGateway(server, with_pages=True)
    monkeypatch.setenv("PERMISSION_LEDGER_HOME", str(running.home))
    try:
        running.start()
        yield running
    finally:
        running.close()


@pytest.fixture
async def together(gateway: RunningGateway, tmp_path: Path) -> AsyncIterator[Together]:
    """All clients, each waiting for an answer."""
    clients = Together(gateway, tmp_path, tmp_path / "shop")
    try:
        await clients.start()
        yield clients
    finally:
        await clients.close()


def replayed(server: RealServer) -> list[dict[str, Any]]:
    return CommandLine(server.url)("replay", "--all", "--speed", "0", "--json", code=0).rows


def assert_whole(together: Together, server: RealServer, replies: Mapping[str, str]) -> None:
    """Check that one replay shows every request and its end, and that every chain is whole."""
    rows = replayed(server)
    by_name = {session: name for name, session in together.sessions.items()}
    outcomes = {
        by_name[row["session"]]: (row["actor"]["name"], row["event"]["reply"])
        for row in rows
        if row["type"] == "replied"
    }
    assert outcomes == {name: ("ann", replies[name]) for name in together.sessions}
    assert max(row["waiting"] for row in rows) == len(together.sessions)
    assert rows[-1]["waiting"] == 0
    verified = CommandLine(server.url)("verify", "--all", "--json", code=0).rows
    assert {*together.sessions.values()} <= {row["session"] for row in verified if row["ok"]}


async def test_each_client_waits_in_one_inbox_is_answered_there_and_all_stand_in_one_replay(
    together: Together, gateway: RunningGateway, server: RealServer
) -> None:
    rows = await all_wait(gateway, together)
    for name, row in rows.items():
        assert ASKED[name].shown in str([row["input"], row["patterns"]]), row
    ann = gateway.person()
    for name, row in rows.items():
        reply, message = ANSWERS[name]
        said = {} if message is None else {"message": message}
        await ann.reply(together.sessions[name], row["request_id"], reply, **said)
    await together.ended()
    assert together.done() == {name: ANSWERS[name][0] != "reject" for name in together.sessions}
    await wait_until_async(lambda: not replayed(server)[-1]["waiting"], "nothing to wait")
    assert_whole(together, server, REPLIES)
    await ann.close()


async def test_in_a_browser_each_client_has_a_card_and_gets_the_answer_given_there(
    together: Together, gateway: RunningGateway, server: RealServer
) -> None:
    rows = await all_wait(gateway, together)
    async with (
        AsyncExitStack() as stack,
        async_playwright() as playwright,
        Ledger.connect(server.url) as ledger,
        await playwright.chromium.launch(executable_path=chromium(), args=ARGUMENTS) as browser,
    ):
        inbox = Inbox(ledger, browser, gateway.page_url, stack)
        # High enough for each of them: the page takes an allow when all of a card was shown.
        ann = await inbox.visit("ann", viewport={"width": 1200, "height": 6000})
        await expect(ann.page.locator(".entry")).to_have_count(len(rows), timeout=LONG_MS)
        for name, session in together.sessions.items():
            await _answered(ann, name, session)
        await expect(ann.page.locator(".lines li")).to_have_count(len(rows), timeout=LONG_MS)
        await inbox.close()
    await together.ended()
    assert together.done() == {name: ANSWERS[name][0] != "reject" for name in together.sessions}
    assert_whole(together, server, REPLIES)
    # Codex suggests to remember every edit. The page offers less, and the answer's grant is for the file.
    granted = CommandLine(server.url)("approved", "--session", together.sessions["codex"], "--json", code=0).rows
    assert [one["pattern"] for one in granted if one["permission"] == "edit"] == ["prices.py"]


async def _answered(person: Visitor, name: str, session: str) -> None:
    """Open the card of a session's request, and answer by the keyboard: a card that has just moved takes no click."""
    reply, message = ANSWERS[name]
    row = person.page.locator(".entry", has=person.page.locator(f"a[href^='#{session}/']"))
    await row.locator("a").click()
    card = person.page.locator("article.card")
    await expect(row.locator("a[aria-current]")).to_have_count(1)
    await expect(card).to_have_attribute("data-armed", "", timeout=LONG_MS)
    if reply == "reject":
        await person.press_on(card, "Reject…", by_key=True)
        await card.get_by_role("textbox").fill(message or "")
        await person.press_on(card, "Reject with instructions", by_key=True)
        await expect(row).to_contain_text("Rejected with instructions by you", timeout=LONG_MS)
        return
    if reply != "once":
        await person.press_on(card, "Remember…", by_key=True)
        await expect(card).to_have_attribute("data-armed", "", timeout=LONG_MS)
    await card.get_by_role("button", name=BUTTONS[reply]).press("Enter")
    await expect(row).to_contain_text(f"Allowed by you ({reply})", timeout=LONG_MS)
