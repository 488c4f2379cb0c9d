"""Pages of past sessions: what they hold, and that none reads all sessions."""

from __future__ import annotations

from typing import Any

import pytest

from ledger import Ledger
from tests.gateway import callers
from tests.gateway.callers import Caller, Served
from tests.support.projecting import project_as_a_worker
from workers.gateway import request_search
from workers.gateway.routes import sessions


@pytest.fixture
async def root(gateway: Served) -> Caller:
    return await gateway.caller("admin", "root")


async def pages(caller: Caller, query: str) -> list[list[str]]:
    return [[one["session"] for one in page] for page in await callers.pages(caller, "/v1/sessions", query)]


async def test_a_page_with_a_projector_looks_for_no_stream(
    root: Caller, ledger: Ledger, clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_search, "LOOK_EVERY_SECONDS", 0.0)
    for number in range(5):
        await root.put(f"/v1/sessions/ses_{number}")
        clock.advance("1s")
    await project_as_a_worker(ledger)
    monkeypatch.setattr(ledger.store, "streams_page", None)
    assert await pages(root, "limit=2") == [["ses_4", "ses_3"], ["ses_2", "ses_1"], ["ses_0"]]
    await root.put("/v1/sessions/ses_5")
    assert await pages(root, "limit=10") == [["ses_5", "ses_4", "ses_3", "ses_2", "ses_1", "ses_0"]]


async def test_a_cursor_stays_good_while_sessions_go_on(root: Caller, ledger: Ledger, clock: Any) -> None:
    for number in range(4):
        await root.put(f"/v1/sessions/ses_{number}")
        clock.advance("1s")
    await project_as_a_worker(ledger)
    first = (await root.get("/v1/sessions?limit=2")).json()
    assert [one["session"] for one in first["sessions"]] == ["ses_3", "ses_2"]
    await root.ask("ses_3")
    await root.put("/v1/sessions/ses_9")
    await project_as_a_worker(ledger)
    rest = (await root.get(f"/v1/sessions?limit=5&cursor={first['cursor']}")).json()
    assert ([one["session"] for one in rest["sessions"]], rest["cursor"]) == (["ses_1", "ses_0"], None)


async def test_the_sessions_below_one_are_found(root: Caller, ledger: Ledger) -> None:
    await root.put("/v1/sessions/top", {"project": "shop"})
    await root.put("/v1/sessions/low", {"project": "shop", "parent": "top"})
    await root.put("/v1/sessions/other", {"project": "bank", "parent": "top"})
    await project_as_a_worker(ledger)
    assert await pages(root, "parent=top") == [["low", "other"]]
    assert await pages(root, "parent=top&project=bank") == [["other"]]
    assert await pages(root, "parent=low") == [[]]


async def test_a_search_ends_after_so_many_sessions_and_goes_on_at_its_cursor(
    root: Caller, ledger: Ledger, clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "EXAMINED_COUNT", 4)
    monkeypatch.setattr(sessions, "EXAMINED_AT_ONCE_COUNT", 2)
    for number in range(7):
        await root.put(f"/v1/sessions/ses_{number}", {"agent": "rare" if number in (0, 6) else "build"})
        clock.advance("1s")
    await project_as_a_worker(ledger)
    assert await pages(root, "agent=rare&limit=1") == [["ses_6"], [], ["ses_0"]]


@pytest.mark.parametrize(
    ("bounds", "found"),
    [
        ({"projects": ["shop"]}, [["ses_shop"]]),
        ({"projects": ["shop", "bank"]}, [["ses_bank", "ses_shop"]]),
        ({"projects": ["alone"]}, [["alone"]]),
        ({"projects": ["shop", *(f"p{number}" for number in range(20))]}, [["ses_shop"]]),
        ({"sessions": ["ses_bank", "none"]}, [["ses_bank"]]),
        ({"projects": ["shop"], "sessions": ["ses_bank", "ses_shop"]}, [["ses_shop"]]),
    ],
)
async def test_a_bound_token_lists_what_it_reaches(
    gateway: Served, root: Caller, ledger: Ledger, bounds: dict[str, Any], found: list[list[str]]
) -> None:
    for session, project in (("ses_shop", "shop"), ("ses_bank", "bank"), ("alone", None), ("ses_free", None)):
        await root.put(f"/v1/sessions/{session}", {} if project is None else {"project": project})
    await project_as_a_worker(ledger)
    assert await pages(await gateway.caller("auditor", **bounds), "limit=10") == found


async def test_an_agent_s_list_is_of_its_own_sessions_alone(
    gateway: Served, root: Caller, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = await gateway.caller("agent", "own", projects=["shop"])
    await agent.put("/v1/sessions/mine", {"project": "shop"})
    for number in range(4):
        await root.put(f"/v1/sessions/ses_{number}", {"project": "shop"})
    await project_as_a_worker(ledger)
    monkeypatch.setattr(sessions, "EXAMINED_COUNT", 1)
    assert await pages(agent, "limit=1") == [["mine"]]


@pytest.mark.parametrize("cursor", ["abc", "12", "-ses_1", "1x-ses_1", f"{'1' * 16}-ses_1", "12-a%20b"])
async def test_a_cursor_that_was_never_handed_out_is_refused(root: Caller, cursor: str) -> None:
    answer = await root.get(f"/v1/sessions?cursor={cursor}")
    assert (answer.status_code, answer.json()["code"]) == (422, "INPUT")


async def test_grants_come_in_pages_of_what_the_caller_reaches(gateway: Served, root: Caller, ledger: Ledger) -> None:
    for number in range(5):
        project = "shop" if number % 2 else "bank"
        await root.post("/v1/grants", {"project": project, "permission": "bash", "pattern": f"run {number}"})
    await project_as_a_worker(ledger)
    ann = await gateway.caller("approver", projects=["bank"])
    seen: list[str] = []
    query = "?limit=2"
    while True:
        page = (await ann.get(f"/v1/grants{query}")).json()
        seen += [one["pattern"] for one in page["grants"]]
        if page["cursor"] is None:
            break
        assert len(page["grants"]) == 2
        query = f"?limit=2&cursor={page['cursor']}"
    assert sorted(seen) == ["run 0", "run 2", "run 4"]
    whole = (await root.get("/v1/grants")).json()
    assert (len(whole["grants"]), whole["problems"], whole["cursor"]) == (5, [], None)
    refused = await root.get("/v1/grants?cursor=abc")
    assert (refused.status_code, refused.json()["code"]) == (422, "INPUT")


async def test_the_busiest_sessions_come_first_when_asked_for(root: Caller, ledger: Ledger) -> None:
    for name, asked, rejected in (("quiet", 1, 0), ("busy", 4, 1), ("strict", 2, 2)):
        await root.put(f"/v1/sessions/{name}", {"cascade_reject": "none"})
        for number in range(asked):
            await root.ask(name, request_id=f"r{number}")
        for number in range(rejected):
            await root.post(f"/v1/sessions/{name}/asks/r{number}/reply", {"reply": "reject", "message": "no" * number})
    await project_as_a_worker(ledger)
    assert await pages(root, "sort=most_asked") == [["busy", "strict", "quiet"]]
    assert await pages(root, "sort=most_rejected&limit=2") == [["strict", "busy"]]
    found = (await root.get("/v1/sessions?sort=most_asked&limit=1")).json()
    assert (found["among"], found["is_cut"], found["cursor"]) == (3, False, None)


async def test_the_session_that_a_person_answered_last_comes_first_when_asked_for(
    root: Caller, ledger: Ledger, clock: Any
) -> None:
    for name in ("early", "late", "never"):
        await root.put(f"/v1/sessions/{name}")
        await root.ask(name, request_id="r1")
    for name in ("early", "late"):
        clock.advance("1s")
        await root.post(f"/v1/sessions/{name}/asks/r1/reply", {"reply": "once"})
    clock.advance("1s")
    await root.ask("early", request_id="r2")
    await root.ask("never", request_id="r2")
    await project_as_a_worker(ledger)
    assert await pages(root, "sort=last_answered") == [["late", "early", "never"]]
    rows = {one["session"]: one for one in (await root.get("/v1/sessions")).json()["sessions"]}
    assert rows["never"]["answered_at"] is None
    assert rows["early"]["answered_at"] < rows["late"]["answered_at"] < rows["early"]["at"]


@pytest.mark.parametrize("query", ["sort=loudest", "sort=most_asked&cursor=1-ses_1"])
async def test_an_order_that_cannot_be_had_is_refused(root: Caller, query: str) -> None:
    assert (await root.get(f"/v1/sessions?{query}")).status_code in (400, 422)
