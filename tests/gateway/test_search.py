"""`GET /v1/search`: who finds what, and what is told where there is no index."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from ledger import Ledger
from tests.gateway.callers import Caller, Served, in_process
from tests.support.indexing import index
from workers.gateway import request_search
from workers.gateway.settings import GatewaySettings


@pytest.fixture
def file(sockets: Path) -> Path:
    return sockets / "search.sqlite"


@pytest.fixture
async def gateway(ledger: Ledger, file: Path) -> AsyncIterator[Served]:
    async with in_process(ledger, GatewaySettings(index_file=file)) as one:
        yield one


async def fill(gateway: Served) -> None:
    """Ask in sessions of two projects, and in one without a project."""
    root = await gateway.caller("admin", "root")
    for session, project in (("ses_1", "shop"), ("ses_2", "bank"), ("alone", None)):
        await root.put(f"/v1/sessions/{session}", {"project": project} if project else {})
        asked = await root.ask(session, f"git push {session}", request_id=f"per_{session}")
        assert asked.status_code == 202, asked.text
    answered = await root.post("/v1/sessions/ses_1/asks/per_ses_1/reply", {"reply": "reject", "message": "not today"})
    assert answered.status_code == 200, answered.text


async def found(caller: Caller, query: str) -> list[str]:
    answer = await caller.get(f"/v1/search?{query}")
    assert answer.status_code == 200, answer.text
    return [row["request_id"] for row in answer.json()["requests"]]


async def test_a_person_finds_requests_with_decision_reason_and_moment(
    gateway: Served, ledger: Ledger, ann: Caller, file: Path
) -> None:
    await fill(gateway)
    await index(ledger, file)
    assert set(await found(ann, "q=git+push")) == {"per_ses_1", "per_ses_2", "per_alone"}
    answer: dict[str, Any] = (await ann.get("/v1/search?q=today+by:root+project:shop")).json()
    (row,) = answer["requests"]
    assert (row["outcome"], row["reason"], row["by"]) == ("corrected", "reject: not today", "root")
    moment = await ann.get(f"/v1/sessions/{row['session']}/state?at={row['version']}")
    assert "per_ses_1" in moment.text
    assert answer["cursor"] is None
    assert answer["lag"] == {"sessions": 0, "events": 0, "whole": True}
    await ann.post("/v1/sessions/ses_2/asks/per_ses_2/reply", {"reply": "once"})
    assert (await ann.get("/v1/search")).json()["lag"] == {"sessions": 1, "events": 1, "whole": True}


@pytest.fixture(params=["looked up", "filtered"])
def bounds(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds of a token are looked up in the index, or, where they are many, matches are filtered by them."""
    if request.param == "filtered":
        monkeypatch.setattr(request_search, "SCOPE_COUNT", 0)


@pytest.mark.usefixtures("bounds")
async def test_nobody_finds_what_is_out_of_reach(gateway: Served, ledger: Ledger, agent: Caller, file: Path) -> None:
    await fill(gateway)
    await index(ledger, file)
    in_shop = await gateway.caller("auditor", "in-shop", projects=["shop"])
    in_session = await gateway.caller("approver", "in-session", sessions=["ses_2"])
    by_itself = await gateway.caller("auditor", "by-itself", projects=["alone"])
    both = await gateway.caller("auditor", "both", projects=["shop"], sessions=["ses_1", "ses_2"])
    assert await found(in_shop, "q=git") == await found(both, "") == ["per_ses_1"]
    assert await found(in_session, "") == ["per_ses_2"]
    assert await found(by_itself, "") == ["per_alone"]
    assert await found(in_shop, "q=project:bank") == await found(in_session, "q=session:ses_1") == []
    assert (await agent.get("/v1/search")).status_code == 403


async def test_pages_follow_each_other(gateway: Served, ledger: Ledger, ann: Caller, file: Path) -> None:
    await fill(gateway)
    await index(ledger, file)
    first = (await ann.get("/v1/search?limit=2")).json()
    rest = (await ann.get(f"/v1/search?limit=2&cursor={first['cursor']}")).json()
    rows = [row["request_id"] for row in first["requests"] + rest["requests"]]
    assert (len(first["requests"]), len(rows), len(set(rows)), rest["cursor"]) == (2, 3, 3, None)


async def test_without_an_index_the_answer_says_what_to_start_and_not_where_it_would_lie(
    ann: Caller, file: Path
) -> None:
    answer = await ann.get("/v1/search?q=git")
    assert (answer.status_code, answer.json()["code"]) == (404, "NO_INDEX")
    assert "permission-ledger worker indexer" in answer.text
    assert file.name not in answer.text


async def test_the_index_of_another_ledger_is_not_searched(ann: Caller, file: Path) -> None:
    async with Ledger.connect("memory://", entry_points=False) as other:
        await index(other, file)
    assert (await ann.get("/v1/search")).json()["code"] == "NO_INDEX"


@pytest.mark.parametrize("query", ["q=---", "q=outcome:maybe", "cursor=x", "q=by:", f"q={'x' * 1001}"])
async def test_a_query_that_cannot_be_meant_is_refused(ann: Caller, query: str) -> None:
    answer = await ann.get(f"/v1/search?{query}")
    assert (answer.status_code, answer.json()["code"]) == (422, "INPUT")
