"""Pages of what waits for a person: what they hold, and what they leave out."""

from __future__ import annotations

from typing import Any

import pytest

from ledger import Ledger
from tests.gateway import callers
from tests.gateway.callers import Caller, Served
from tests.support.projecting import project_as_a_worker
from workers.gateway import inboxes


@pytest.fixture
async def root(gateway: Served) -> Caller:
    return await gateway.caller("admin", "root")


async def pages(caller: Caller, query: str) -> list[list[str]]:
    return [[one["request_id"] for one in page] for page in await callers.pages(caller, "/v1/pending", query)]


async def fill(root: Caller, clock: Any) -> None:
    for number in range(5):
        await root.put(f"/v1/sessions/ses_{number}", {"project": "shop" if number % 2 else "bank"})
        await root.ask(f"ses_{number}", request_id=f"r{number}")
        clock.advance("1s")


async def test_pages_follow_each_other_by_cursors(root: Caller, ledger: Ledger, clock: Any) -> None:
    await fill(root, clock)
    for _ in range(2):
        assert await pages(root, "limit=2") == [["r0", "r1"], ["r2", "r3"], ["r4"]]
        assert await pages(root, "limit=5") == [["r0", "r1", "r2", "r3", "r4"]]
        assert await pages(root, "project=shop&limit=1") == [["r1"], ["r3"]]
        assert await pages(root, "session=ses_3&limit=1") == [["r3"]]
        await project_as_a_worker(ledger)


async def test_a_page_with_a_projector_looks_for_no_stream(
    root: Caller, ledger: Ledger, clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(root, clock)
    await project_as_a_worker(ledger)
    monkeypatch.setattr(ledger.store, "streams_page", None)
    monkeypatch.setattr(ledger.waiting, "survey", None)
    assert await pages(root, "limit=3") == [["r0", "r1", "r2"], ["r3", "r4"]]


async def test_a_search_that_leaves_much_out_goes_on_by_its_cursor(
    root: Caller, ledger: Ledger, clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(root, clock)
    await project_as_a_worker(ledger)
    monkeypatch.setattr(inboxes, "AT_ONCE_COUNT", 1)
    monkeypatch.setattr(inboxes, "EXAMINED_COUNT", 1)
    found = await pages(root, "tree=ses_4&limit=1")
    assert found[-1] == ["r4"]
    assert [one for page in found for one in page] == ["r4"]
    assert len(found) > 1
    assert (await root.get("/v1/pending?limit=3")).json()["count"] == 3


async def test_a_request_past_its_deadline_is_on_no_page(root: Caller, clock: Any) -> None:
    await fill(root, clock)
    clock.advance("30d")
    assert await pages(root, "limit=5") == [[]]
    assert await pages(root, "session=ses_3") == [[]]


async def test_a_page_has_what_a_token_reaches_and_no_more(gateway: Served, root: Caller, clock: Any) -> None:
    await fill(root, clock)
    shop = await gateway.caller("approver", "ann", projects=["shop"])
    assert await pages(shop, "limit=1") == [["r1"], ["r3"]]
    assert await pages(shop, "project=bank") == [[]]
    two = await gateway.caller("approver", "bob", sessions=["ses_0", "ses_3"])
    assert await pages(two, "limit=1") == [["r0"], ["r3"]]
    assert await pages(two, "session=ses_1") == [[]]
    agent = await gateway.caller("agent", "robot", projects=["shop"])
    await agent.put("/v1/sessions/ses_own", {"project": "shop"})
    await agent.ask("ses_own", request_id="own")
    assert await pages(agent, "") == [["own"]]


async def test_the_most_dangerous_requests_come_first_then_those_with_the_nearest_deadlines(
    root: Caller, ledger: Ledger, clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands = ["make", "curl https://a.example", "make all", "sudo make", "rm -rf build"]
    for number, command in enumerate(commands):
        await root.put(f"/v1/sessions/ses_{number}", {"project": "shop" if number % 2 else "bank"})
        await root.ask(f"ses_{number}", request_id=f"r{number}", patterns=[command])
        clock.advance("1s")
    for _ in range(2):
        answer = (await root.get("/v1/pending?sort=danger")).json()
        assert [one["request_id"] for one in answer["pending"]] == ["r3", "r4", "r0", "r2", "r1"]
        few = (await root.get("/v1/pending?sort=danger&limit=2")).json()
        assert [one["request_id"] for one in few["pending"]] == ["r3", "r4"]
        assert {name: few[name] for name in ("count", "among", "is_cut", "cursor", "problems")} == {
            "count": 2,
            "among": 5,
            "is_cut": False,
            "cursor": None,
            "problems": [],
        }
        await project_as_a_worker(ledger)
    monkeypatch.setattr(inboxes, "RANKED_COUNT", 3)
    cut = (await root.get("/v1/pending?sort=danger&limit=2")).json()
    assert ([one["request_id"] for one in cut["pending"]], cut["among"], cut["is_cut"]) == (["r0", "r2"], 3, True)
    monkeypatch.setattr(inboxes, "RANKED_SECONDS", -1)
    late = (await root.get("/v1/pending?sort=danger&limit=2")).json()
    assert ([one["request_id"] for one in late["pending"]], late["among"], late["is_cut"]) == (["r0", "r1"], 2, True)
    refused = await root.get(
        f"/v1/pending?sort=danger&cursor={(await root.get('/v1/pending?limit=1')).json()['cursor']}"
    )
    assert (refused.status_code, refused.json()["code"]) == (422, "INPUT")


async def test_the_most_dangerous_requests_are_those_within_reach(gateway: Served, root: Caller, clock: Any) -> None:
    await fill(root, clock)
    shop = await gateway.caller("approver", "ann", projects=["shop"])
    answer = (await shop.get("/v1/pending?sort=danger")).json()
    assert ([one["request_id"] for one in answer["pending"]], answer["among"]) == (["r1", "r3"], 2)


async def test_a_cursor_that_was_not_handed_out_is_bad_input(root: Caller) -> None:
    answer = await root.get("/v1/pending?cursor=abc")
    assert (answer.status_code, answer.json()["code"]) == (422, "INPUT")
