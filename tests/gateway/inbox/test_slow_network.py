"""The first card on a slow network: few bytes, few round trips, and soon where the browser has the files."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlparse

import pytest
from playwright.async_api import CDPSession, expect

from tests.gateway.inbox.visitors import Inbox, Visitor

WAITING = 300
SLOW_3G = {"offline": False, "latency": 400, "downloadThroughput": 500_000 / 8, "uploadThroughput": 500_000 / 8}
"""400 ms for each round trip, 500 kbit/s."""
BYTES_MAX = 100_000
FIRST_CARD_MS_MAX = 1500
FIRST_CARD = "() => document.querySelector('article.card .what .code')"


class Traffic:
    """The bytes of answers by path, headers included, as the browser's network stack counts them; 0 is its own copy."""

    def __init__(self, cdp: CDPSession) -> None:
        self.paths: dict[str, str] = {}
        self.bytes: dict[str, int] = {}
        cdp.on("Network.requestWillBeSent", self._sent)
        cdp.on("Network.loadingFinished", self._finished)

    def _sent(self, event: dict[str, Any]) -> None:
        self.paths[event["requestId"]] = urlparse(event["request"]["url"]).path

    def _finished(self, event: dict[str, Any]) -> None:
        self.bytes[self.paths[event["requestId"]]] = round(event["encodedDataLength"])


async def filled(inbox: Inbox) -> tuple[Visitor, CDPSession]:
    for number in range(WAITING // 100):
        session = await inbox.session(f"ses_{number}")
        for index in range(100):
            await session.submit("bash", [f"deploy service-{number}-{index} --to production"], request_id=f"r{index}")
    ann = await inbox.visit("ann", None)
    cdp = await ann.context.new_cdp_session(ann.page)
    await cdp.send("Network.enable")
    return ann, cdp


async def first_card(visitor: Visitor, cdp: CDPSession, network: dict[str, Any]) -> tuple[Traffic, float]:
    """Open the inbox; return the finished traffic up to the first card, and the time (ms) of that."""
    await cdp.send("Network.emulateNetworkConditions", network)
    traffic = Traffic(cdp)
    await visitor.page.goto(f"{visitor.inbox.url}/", wait_until="commit")
    await visitor.page.wait_for_function(FIRST_CARD)
    until = await visitor.page.evaluate("performance.now()")
    # The event stream has no end, and the card does not wait for it.
    return traffic, float(until)


async def test_the_first_of_three_hundred_cards_takes_three_round_trips_and_few_bytes(inbox: Inbox) -> None:
    ann, cdp = await filled(inbox)
    traffic, _ = await first_card(ann, cdp, {**SLOW_3G, "latency": 50})
    files = [path for path in traffic.bytes if path.endswith((".js", ".css"))]
    # The page, then one script and one style sheet, then who this is and the first requests at once.
    assert sorted(path.rpartition(".")[2] for path in files) == ["css", "js"]
    needed = {path: traffic.bytes[path] for path in ("/", *files, "/v1/me", "/v1/pending")}
    assert sum(needed.values()) <= BYTES_MAX, needed
    await expect(ann.page.locator("#nav .count")).to_have_text(str(WAITING))


@pytest.mark.slow
async def test_with_the_files_at_hand_the_first_card_is_there_in_a_second_and_a_half_on_slow_3g(inbox: Inbox) -> None:
    ann, cdp = await filled(inbox)
    await first_card(ann, cdp, {**SLOW_3G, "latency": 0, "downloadThroughput": -1})
    traffic, until_ms = await first_card(ann, cdp, SLOW_3G)
    assert {count for path, count in traffic.bytes.items() if path.endswith((".js", ".css"))} <= {0}
    assert until_ms <= FIRST_CARD_MS_MAX, (until_ms, traffic.bytes)
