"""The order and the filter of the inbox: over all pending requests, not only those near the window."""

from __future__ import annotations

from typing import Any

from playwright.async_api import expect

from ledger import Timeouts
from tests.gateway.inbox.visitors import Inbox, Visitor

FILTERED = """async (texts) => {
  const { filterOf } = await import("/inbox/js/filtering.js");
  const { get } = await import("/inbox/js/api.js");
  const { pending } = await get("/v1/pending");
  return texts.map((text) => pending.filter(filterOf(text)).map((row) => row.request_id).sort());
}"""
FOUND = {
    "": ["a", "b"],
    "push main": ["a"],
    "MAIN push": ["a"],
    "push nowhere": [],
    "project:shop": ["a"],
    "project:shop agent:amy": ["a"],
    "project:shop agent:bea": [],
    "session:ses_2": ["b"],
    "path:/srv/bank": ["b"],
    "danger:network": ["a"],
    "ticket-77": ["b"],
    '"origin main"': ["a"],
    '"main origin"': [],
    "https://b.example/x": ["b"],
}


async def _ask(inbox: Inbox, session_id: str, request_id: str, command: str, seconds: int, **more: Any) -> None:
    times = Timeouts(attended=seconds, unattended=seconds, cap=seconds)
    session = await inbox.session(session_id, timeouts=times, rules=[], **more)
    await session.submit("bash", [command], request_id=request_id)


async def _order(visitor: Visitor) -> list[str]:
    keys = await visitor.page.locator(".entry").evaluate_all("rows => rows.map(row => row.dataset.key)")
    return [key.split("\n")[1] for key in keys]


async def test_the_dangerous_comes_first_then_what_ends_first_and_by_project_or_agent_on_demand(inbox: Inbox) -> None:
    await _ask(inbox, "ses_1", "late", "make late", 9000, project="bank", agent="zoe")
    await _ask(inbox, "ses_2", "soon", "make --soon", 900, project="shop", agent="amy")
    await _ask(inbox, "ses_3", "net", "npm publish", 9900, project="shop", agent="bea")
    await _ask(inbox, "ses_4", "grave", "rm -rf build", 9900, project="shop", agent="cid")
    ann = await inbox.visit("ann")
    await expect(ann.page.locator(".entry")).to_have_count(4)
    assert await _order(ann) == ["grave", "net", "soon", "late"]
    for order, expected in (
        ("By deadline", ["soon", "late", "net", "grave"]),
        ("By project", ["late", "grave", "net", "soon"]),
        ("By agent", ["soon", "net", "grave", "late"]),
    ):
        await ann.page.get_by_label("Order").select_option(order)
        assert await _order(ann) == expected
    await ann.page.reload()
    await expect(ann.page.get_by_label("Order")).to_have_value("agent")


async def test_every_word_of_a_request_is_found_and_all_words_must_be_met(inbox: Inbox) -> None:
    about: dict[str, Any] = {"dialect": "claude", "rules": {"permissions": {}}}
    first = await inbox.session("ses_1", agent="amy", cwd="/srv/shop", **about)
    await first.submit_tool("Bash", {"command": "git push origin main"}, request_id="a")
    second = await inbox.session("ses_2", project="bank", agent="bea", cwd="/srv/bank", **about)
    await second.submit_tool("mcp__x__y", {"note": "ticket-77", "at": "https://b.example/x"}, request_id="b")
    ann = await inbox.visit("ann")
    await expect(ann.page.locator(".entry")).to_have_count(2)
    found = await ann.page.evaluate(FILTERED, list(FOUND))
    assert dict(zip(FOUND, found, strict=True)) == FOUND


async def test_a_filter_finds_what_is_far_from_the_window(inbox: Inbox) -> None:
    for index in range(60):
        session = await inbox.session(f"ses_{index}")
        await session.submit("bash", [f"tool-{index} run"], request_id=f"r{index}")
    ann = await inbox.visit("ann", viewport={"width": 1200, "height": 500})
    await expect(ann.page.locator(".summary")).to_have_text("60")
    await ann.page.get_by_role("searchbox").fill("tool-59 session:ses_59")
    await expect(ann.page.locator(".summary")).to_have_text("1 of 60")
    await expect(ann.page.locator(".entry")).to_have_count(1)
