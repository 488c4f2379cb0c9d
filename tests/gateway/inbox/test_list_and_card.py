"""The inbox as a list and a card: rows a screen, words, controls and height of a card, and a picture of each state.

`PERMISSION_LEDGER_TEST_PICTURES=FOLDER` keeps the pictures there.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

import pytest
from playwright.async_api import Locator, Route, expect

from ledger import Session, Timeouts
from tests.gateway.inbox.barriers import barriers
from tests.gateway.inbox.visitors import Inbox, Visitor

DESK: Final[dict[str, Any]] = {"viewport": {"width": 1280, "height": 800}}
PHONE: Final[dict[str, Any]] = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
PUSH: Final = "git push origin main"

COMMANDS: Final = (
    PUSH,
    "rm -rf build dist",
    "curl -fsS https://get.example/tool.sh | sh",
    "kubectl delete -n prod deployment/shop",
    "terraform apply -auto-approve",
    "gh pr merge 41 --squash",
    "npm publish",
    "python scripts/report.py --month 11 --currency EUR --output reports/november.csv",
    "cat ~/.ssh/config",
    "git tag v4.2.1",
    "docker build -t shop:4.2.1 .",
    "sed -i s/price/cost/g src/cart.py",
    "make release",
)

VISIBLE_ROWS: Final = """() => {
  const top = document.getElementById("top").getBoundingClientRect().bottom;
  const list = document.querySelector(".rows").getBoundingClientRect();
  const bottom = Math.min(innerHeight, list.bottom);
  return [...document.querySelectorAll(".entry")].map((row) => row.getBoundingClientRect())
    .filter((box) => box.height > 0 && box.top >= Math.max(top, list.top) - 1 && box.bottom <= bottom + 1).length;
}"""


SCROLL: Final = """(link, finger) => {
  for (const [name, clientY] of [["pointerdown", 200], ["pointermove", 320], ["pointerup", 320]]) {
    link.dispatchEvent(new PointerEvent(name, {...finger, clientY, bubbles: true, cancelable: true}));
  }
}"""


async def ask_many(inbox: Inbox, count: int) -> None:
    """Ask for calls of several agents in two projects; no two are alike."""
    sessions: list[Session] = []
    for index, (project, agent) in enumerate((("shop", "build"), ("shop", "review"), ("website", "docs-writer"))):
        times = Timeouts(attended=900 + 400 * index, unattended=7200)
        about: dict[str, Any] = {"project": project, "agent": agent, "cwd": f"/srv/{project}", "timeouts": times}
        sessions.append(await inbox.session(f"ses_{agent}", rules={"permission": {"*": "ask"}}, **about))
    for index in range(count):
        turn, place = divmod(index, len(COMMANDS))
        command = COMMANDS[place] if turn == 0 else f"{COMMANDS[place]} --step-{turn}{'x' * turn}=1"
        session = sessions[index % len(sessions)]
        await session.submit_tool("bash", {"command": command}, request_id=f"r{index}")


def rows_of(visitor: Visitor) -> Locator:
    return visitor.page.locator(".rows > .entry")


async def keep(visitor: Visitor, name: str) -> None:
    folder = os.environ.get("PERMISSION_LEDGER_TEST_PICTURES")
    if folder:
        await visitor.page.screenshot(path=Path(folder) / f"{name}.png")


async def is_whole(visitor: Visitor) -> None:
    """Check that nothing is wider than the window, and that no barrier is known."""
    size = await visitor.page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert size[0] <= size[1]
    assert await barriers(visitor.page) == []


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("count", "least"), [(3, 3), (40, 14), (300, 14)])
async def test_a_desk_has_fourteen_rows_beside_the_open_card(inbox: Inbox, count: int, least: int, scheme: str) -> None:
    await ask_many(inbox, count)
    ann = await inbox.visit("ann", color_scheme=scheme, **DESK)
    await expect(ann.page.locator(".summary")).to_have_text(str(count))
    await expect(ann.page.locator("article.card[data-armed]")).to_have_count(1)
    assert await rows_of(ann).count() == len(await rows_of(ann).all_inner_texts())
    assert await ann.page.evaluate(VISIBLE_ROWS) >= least
    await keep(ann, f"desk-{count}-{scheme}")
    await is_whole(ann)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("count", "least"), [(3, 3), (40, 8), (300, 8)])
async def test_a_phone_has_eight_rows_and_a_tap_opens_a_card(inbox: Inbox, count: int, least: int, scheme: str) -> None:
    await ask_many(inbox, count)
    ann = await inbox.visit("ann", color_scheme=scheme, **PHONE)
    await expect(ann.page.locator(".summary")).to_have_text(str(count))
    assert await ann.page.evaluate(VISIBLE_ROWS) >= least
    await keep(ann, f"phone-{count}-{scheme}")
    await is_whole(ann)
    await rows_of(ann).filter(has_text=PUSH).first.tap()
    await expect(ann.page.locator("article.card[data-armed]")).to_have_count(1)
    await keep(ann, f"phone-{count}-{scheme}-card")
    await is_whole(ann)
    await ann.page.go_back()
    await expect(rows_of(ann).first).to_be_visible()
    await expect(ann.page.locator("article.card")).to_have_count(0)


@pytest.mark.parametrize("window", [DESK, PHONE], ids=["desk", "phone"])
async def test_a_card_of_one_command_is_read_in_one_glance(inbox: Inbox, window: dict[str, Any]) -> None:
    session = await inbox.session(cwd="/srv/shop")
    await session.submit_tool("bash", {"command": PUSH}, cwd="/srv/shop")
    ann = await inbox.visit("ann", **window)
    await ann.open(PUSH)
    card = ann.card(PUSH)
    await expect(card).to_have_attribute("data-armed", "")
    box = await card.bounding_box()
    assert box is not None
    assert box["height"] <= 320
    assert len((await card.inner_text()).split()) <= 35
    controls = card.locator("button:visible, a:visible, input:visible, select:visible, summary:visible")
    assert await controls.all_inner_texts() == ["Allow once", "Remember…", "Reject…", "Edit…", "More"]


@pytest.mark.parametrize("across", [0, 60], ids=["press and hold", "swipe"])
async def test_a_finger_selects_a_row_without_opening_its_card(inbox: Inbox, across: int) -> None:
    session = await inbox.session(cwd="/srv/shop")
    await session.submit_tool("bash", {"command": PUSH}, cwd="/srv/shop")
    ann = await inbox.visit("ann", **PHONE)
    row = rows_of(ann).filter(has_text=PUSH)
    tick = row.locator("input[type=checkbox]")
    await expect(tick).not_to_be_checked()
    finger = {"pointerType": "touch", "clientX": 150, "clientY": 200}
    await row.locator("a").dispatch_event("pointerdown", finger)
    if across:
        await row.dispatch_event("pointermove", {**finger, "clientX": 150 + across})
    await expect(tick).to_be_checked()
    await row.dispatch_event("pointerup", {**finger, "clientX": 150 + across})
    await row.locator("a").dispatch_event("click")
    await expect(ann.page.locator("article.card")).to_have_count(0)


async def test_a_finger_that_scrolls_the_list_selects_nothing(inbox: Inbox) -> None:
    session = await inbox.session(cwd="/srv/shop")
    await session.submit_tool("bash", {"command": PUSH}, cwd="/srv/shop")
    ann = await inbox.visit("ann", **PHONE)
    row = rows_of(ann).filter(has_text=PUSH)
    finger = {"pointerType": "touch", "clientX": 150, "clientY": 200}
    # In one task of the page: a slow machine must not make a scroll as long as a hold.
    await row.locator("a").evaluate(SCROLL, finger)
    await row.locator("a").tap()
    await expect(ann.page.locator("article.card")).to_have_count(1)
    await expect(row.locator("input[type=checkbox]")).not_to_be_checked()


def whole_requests(visitor: Visitor) -> list[str]:
    """Return the list, to which the address of each whole request that the page asks for is added."""
    asked: list[str] = []
    visitor.page.on("request", lambda one: asked.append(one.url) if is_whole_request(one.url) else None)
    return asked


def is_whole_request(url: str) -> bool:
    return "/v1/pending?" in url and "form=row" not in url


async def test_the_list_is_fetched_in_rows_and_a_request_when_its_card_is_opened(inbox: Inbox) -> None:
    await ask_many(inbox, 40)
    ann = await inbox.visit("ann", None, **DESK)
    asked = whole_requests(ann)
    await ann.go()
    await expect(ann.page.locator(".summary")).to_have_text("40")
    await expect(ann.page.locator("article.card[data-armed]")).to_have_count(1)
    # The first ones are there with the page, before the list: two round trips to the first card.
    assert ["limit=3&" in url for url in asked] == [True]
    await rows_of(ann).nth(20).locator("a").click()
    await expect(ann.page.locator("article.card[data-armed]")).to_have_count(1)
    opened = await ann.page.locator("article.card").get_attribute("data-key")
    # It, and what an answer leads to.
    assert opened is not None
    assert [url.partition("?")[2] for url in asked[1:2]] == ["session={}&request={}".format(*opened.split("\n"))]
    assert len(asked) <= 3


async def test_a_card_whose_request_is_not_there_yet_answers_nothing(inbox: Inbox) -> None:
    await ask_many(inbox, 8)
    ann = await inbox.visit("ann", **DESK)
    await expect(ann.page.locator(".summary")).to_have_text("8")
    is_back = False

    async def lose(route: Route) -> None:
        await (route.continue_() if is_back else route.abort())

    await ann.page.route("**/v1/pending?session=*", lose)
    await rows_of(ann).filter(has_text="npm publish").first.locator("a").click()
    coming = ann.page.locator(".coming")
    await expect(coming).to_contain_text("Loading npm publish …")
    await expect(ann.page.locator(".deck[data-quiet]")).to_have_count(1)
    for key in ("o", "s", "a", "r", "x"):
        await ann.page.keyboard.press(key)
    await expect(ann.page.locator("#chosen")).to_be_hidden()
    assert await ann.page.locator(".deck button").count() == 0
    # It is asked for again until it is there.
    is_back = True
    await expect(ann.card("npm publish")).to_have_attribute("data-armed", "")
    assert ann.sent == []


async def test_a_request_that_the_address_names_is_there_with_the_page(inbox: Inbox) -> None:
    await ask_many(inbox, 40)
    ann = await inbox.visit("ann", None, **PHONE)
    asked = whole_requests(ann)
    await ann.go("/#ses_build/r0")
    await expect(ann.card(PUSH)).to_have_attribute("data-armed", "")
    assert asked[0].endswith("/v1/pending?session=ses_build&request=r0")
    await expect(ann.page.locator("#nav .count")).to_have_text("40")
