"""The first card on a slow network: few bytes, two round trips, and whole.

`python -m pytest -m slow --log-cli-level=INFO` on this file logs the times of a first visit and of a second one.
"""

from __future__ import annotations

import logging
import re
from typing import Any

import pytest
from playwright.async_api import CDPSession, Route, expect

from ledger import Timeouts
from tests.gateway.inbox.barriers import barriers
from tests.gateway.inbox.visitors import Inbox, Visitor
from workers.gateway.inbox.pages import page_parts, served_files

_LOG = logging.getLogger(__name__)
WAITING = 300
SLOW_3G = {"offline": False, "latency": 400, "downloadThroughput": 500_000 / 8, "uploadThroughput": 500_000 / 8}
"""400 ms for each round trip, 500 kbit/s."""
BYTES_MAX = 100_000
FIRST_CARD_MS_MAX = 1500
HEADER_BYTES_MAX = 2000
"""The headers of an answer, with the policy of the page."""

# Notes the first card where and when it is drawn, what the page has fetched until then, and what replaces it later.
WATCH = """
window.seen = { firsts: [] };
window.placeOf = (card) => [card.getBoundingClientRect().top, card.offsetHeight, document.getElementById("top").offsetHeight];
new MutationObserver(() => {
  const card = document.querySelector("article.card");
  if (!card?.querySelector(".what .code")) return;
  window.seen.ms ??= performance.now();
  window.seen.place ??= window.placeOf(card);
  window.seen.isWhole ??= document.getElementById("whole") !== null;
  window.seen.files ??= performance.getEntriesByType("resource").map(({ name, startTime, encodedBodySize }) => [new URL(name).pathname, startTime, encodedBodySize]);
  if (window.seen.firsts.at(-1) !== card) window.seen.firsts.push(card);
}).observe(document, { childList: true, subtree: true });
"""
SEEN = """() => {
  const { firsts, ...seen } = window.seen;
  const [page] = performance.getEntriesByType("navigation");
  return { ...seen, placeLater: window.placeOf(firsts[0]), firsts: firsts.map((card) => card.querySelector(".what .code").textContent), end: page.responseEnd, size: page.encodedBodySize };
}"""


async def filled(inbox: Inbox) -> tuple[Visitor, CDPSession]:
    """Three hundred pending requests, the most dangerous of which has the latest deadline."""
    for number in range(WAITING // 100):
        times = Timeouts(attended=3600 + number, unattended=7200 + number, cap=9000 + number)
        session = await inbox.session(f"ses_{number}", timeouts=times)
        for index in range(100):
            await session.submit("bash", [f"deploy service-{number}-{index} --to production"], request_id=f"r{index}")
    await session.submit("bash", ["sudo dd if=image of=/dev/sda"], request_id="grave")
    ann = await inbox.visit("ann", None, viewport={"width": 1280, "height": 800})
    await ann.page.add_init_script(WATCH)
    cdp = await ann.context.new_cdp_session(ann.page)
    await cdp.send("Network.enable")
    return ann, cdp


async def first_card(visitor: Visitor, cdp: CDPSession, network: dict[str, Any]) -> dict[str, Any]:
    """Open the inbox, and wait for all of it; return what was seen when the first card was drawn."""
    await cdp.send("Network.emulateNetworkConditions", network)
    await visitor.page.goto(f"{visitor.inbox.url}/", wait_until="commit")
    await visitor.page.wait_for_function("() => window.seen.ms && document.getElementById('whole')")
    await cdp.send("Network.emulateNetworkConditions", {**network, "latency": 0, "downloadThroughput": -1})
    await expect(visitor.page.locator("#nav .count")).to_have_text(str(WAITING + 1), timeout=60_000)
    await expect(visitor.page.locator("#connection")).to_have_attribute("data-state", "live")
    seen: dict[str, Any] = await visitor.page.evaluate(SEEN)
    return seen


async def test_the_first_of_three_hundred_cards_takes_two_round_trips_and_few_bytes(inbox: Inbox) -> None:
    ann, cdp = await filled(inbox)
    seen = await first_card(ann, cdp, SLOW_3G)
    # The requests are asked for while the page is on its way, and nothing else is needed for the card.
    calls = {path: (begun, size) for path, begun, size in seen["files"] if path.startswith("/v1/")}
    assert set(calls) <= {"/v1/pending", "/v1/me"}
    assert all(begun < seen["end"] for begun, _ in calls.values())
    assert [path for path, *_ in seen["files"] if path.endswith((".js", ".css"))] == []
    assert (seen["isWhole"], "/v1/pending" in calls) == (False, True)
    assert seen["size"] + calls["/v1/pending"][1] + 3 * HEADER_BYTES_MAX <= BYTES_MAX
    # In the order of the list: the others come below it, and nobody draws it again.
    assert seen["firsts"] == ["sudo dd if=image of=/dev/sda"]
    assert seen["placeLater"] == seen["place"]


async def test_the_page_asks_for_requests_in_its_first_lines_and_draws_them_before_its_rest() -> None:
    parts, page = page_parts(), served_files()["inbox.html"].content.decode()
    order = [
        page.index(text) for text in (parts.early, parts.style, parts.main, parts.following_style, parts.following)
    ]
    assert order == sorted(order)
    assert order[0] < 1500
    assert len(parts.early) < 4000


async def test_the_card_and_its_answer_need_no_file_and_no_event_stream(inbox: Inbox) -> None:
    await (await inbox.session()).submit("bash", ["git push"], request_id="r1")
    ann = await inbox.visit("ann", None)
    for address in ("**/inbox/*.js", "**/v1/events*"):
        await ann.page.route(address, lambda route: route.abort())
    await ann.go()
    await ann.press("git push", "Allow once")
    await expect(ann.card("git push")).to_contain_text("Allowed by you (once)")


async def test_a_page_that_was_cut_off_shows_the_card_and_answers_nothing(inbox: Inbox) -> None:
    session = await inbox.session()
    await session.submit("bash", ["git push"], request_id="r1")
    ann = await inbox.visit("ann", None)

    async def cut(route: Route) -> None:
        answer = await route.fetch()
        text = await answer.text()
        await route.fulfill(response=answer, body=text[: text.index(page_parts().following) + 100])

    await ann.page.route(f"{inbox.url}/", cut)
    await ann.go()
    said = ann.page.get_by_text("This page has not arrived whole. Reload it.").first
    await expect(said).to_be_visible()
    await expect(ann.card("git push").locator(".command")).to_have_text("git push")
    assert await barriers(ann.page) == []
    await ann.press("git push", "Allow once")
    await ann.page.keyboard.press("o")
    await expect(ann.page.locator("#announcer")).to_have_text("This page has not arrived whole. Reload it.")
    assert (ann.sent, (await session.result("r1")).outcome) == ([], None)
    await ann.page.unroute(f"{inbox.url}/")
    await ann.page.reload()
    await ann.press("git push", "Allow once")
    await expect(ann.card("git push")).to_contain_text("Allowed by you (once)")


async def test_a_part_whose_script_cannot_be_fetched_says_so_and_comes_with_the_connection(inbox: Inbox) -> None:
    await (await inbox.session()).submit("bash", ["git push"], request_id="r1")
    ann = await inbox.visit("ann", None)
    await ann.page.route("**/inbox/later.*.js", lambda route: route.abort())
    await ann.go()
    await expect(ann.card("git push")).to_be_visible()
    await ann.page.get_by_role("link", name="Grants").click()
    await expect(ann.page.get_by_text("No connection to the gateway; trying again …")).to_be_visible()
    await ann.page.get_by_role("link", name="Inbox").click()
    await expect(ann.card("git push")).to_be_visible()
    await ann.page.get_by_role("link", name="Grants").click()
    await ann.page.unroute("**/inbox/later.*.js")
    await expect(ann.page.get_by_role("heading", level=1)).to_have_text(re.compile("grants", re.IGNORECASE))


async def test_nothing_of_a_request_is_in_the_page_and_its_answers_are_not_kept(inbox: Inbox) -> None:
    await (await inbox.session()).submit("bash", ["git push a-secret-place"], request_id="r1")
    ann = await inbox.visit("ann", None)
    async with ann.page.expect_response(lambda answer: "/v1/pending" in answer.url) as pending:
        page = await ann.page.goto(f"{inbox.url}/")
    assert page is not None
    assert await page.body() == served_files()["inbox.html"].content
    headers = await (await pending.value).all_headers()
    assert (headers["cache-control"], headers.get("content-encoding")) == ("no-store", None)
    await expect(ann.card("a-secret-place")).to_be_visible()


@pytest.mark.slow
async def test_with_the_page_at_hand_the_first_card_is_there_in_a_second_and_a_half_on_slow_3g(inbox: Inbox) -> None:
    ann, cdp = await filled(inbox)
    first = await first_card(ann, cdp, SLOW_3G)
    again = await first_card(ann, cdp, SLOW_3G)
    _LOG.info("the first card on slow 3G: %d ms on a first visit, %d ms again", first["ms"], again["ms"])
    assert again["ms"] <= FIRST_CARD_MS_MAX, (again["ms"], again["files"])
