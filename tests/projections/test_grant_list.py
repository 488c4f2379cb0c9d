"""The grants in force in pages as of the log, with any projector or none."""

from __future__ import annotations

from typing import Any

import pytest

from ledger import Ledger
from ledger.client.grant_list import GrantList
from ledger.log.places import GrantPlace
from ledger.log.streams import Streams
from ledger.testing import TestClock
from tests.projections.looking import differences
from tests.support.projecting import project_as_a_worker

PATTERNS = ["a *", "b *", "c *", "d *"]


async def fill(ledger: Ledger, clock: TestClock) -> None:
    """Four grants in force, a second apart: in shop, in a session of shop, in a session without a project, in bank."""
    shop = await ledger.session("ses_1", project="shop")
    alone = await ledger.session("ses_2")
    await ledger.grant_in_project("shop", "bash", "a *", grant_id="grn_a")
    clock.advance("1s")
    await shop.grant("bash", "b *", grant_id="grn_b")
    clock.advance("1s")
    await alone.grant("bash", "c *", grant_id="grn_c")
    clock.advance("1s")
    await ledger.grant_in_project("bank", "bash", "d *", grant_id="grn_d")
    await alone.grant("bash", "e *", grant_id="grn_ended")
    clock.advance("1s")
    await ledger.revoke("grn_ended")


async def rows(ledger: Ledger, count: int = 2, after: GrantPlace | None = None, *projects: str) -> list[dict[str, Any]]:
    pages = GrantList(ledger.store, ledger.streams, projects=projects).pages(after, count)
    return [one.row async for page in pages for one in page.rows]


async def patterns(ledger: Ledger, *more: Any) -> list[str]:
    return [row["pattern"] for row in await rows(ledger, *more)]


async def test_the_list_is_that_of_the_log_with_a_projector_or_without(ledger: Ledger, clock: TestClock) -> None:
    await fill(ledger, clock)
    told = [one.as_json() for one in (await ledger.grants_anywhere()).rows]
    for _ in range(2):
        for count in (1, 3, 10):
            found = await rows(ledger, count)
            assert [list(row.items()) for row in found] == [list(row.items()) for row in told]
        await project_as_a_worker(ledger)


async def test_grants_made_and_ended_since_the_views_were_made_are_in_their_places(
    ledger: Ledger, clock: TestClock
) -> None:
    await fill(ledger, clock)
    await project_as_a_worker(ledger)
    await ledger.revoke("grn_b")
    await (await ledger.attach("ses_1")).grant("bash", "f *")
    assert await patterns(ledger) == ["a *", "c *", "d *", "f *"]


async def test_the_grants_of_a_closed_session_are_in_force_no_more(ledger: Ledger, clock: TestClock) -> None:
    await fill(ledger, clock)
    await project_as_a_worker(ledger)
    await (await ledger.attach("ses_2")).close()
    for _ in range(2):
        assert await patterns(ledger) == ["a *", "b *", "d *"]
        assert [one.grant.pattern for one in (await ledger.grants_anywhere()).rows] == ["a *", "b *", "d *"]
        await project_as_a_worker(ledger)
    assert await differences(ledger.store) == []


async def test_with_a_projector_that_keeps_up_no_stream_is_looked_for(
    ledger: Ledger, clock: TestClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(ledger, clock)
    await project_as_a_worker(ledger)
    monkeypatch.setattr(ledger.store, "streams_page", None)
    monkeypatch.setattr(ledger.store, "open", None)
    assert await patterns(ledger) == PATTERNS


async def test_a_page_begins_after_the_place_that_the_last_one_ended_with(ledger: Ledger, clock: TestClock) -> None:
    await fill(ledger, clock)
    await project_as_a_worker(ledger)
    (first, *_) = [page async for page in GrantList(ledger.store, ledger.streams).pages(None, 2)]
    await ledger.revoke("grn_a")
    assert await patterns(ledger, 2, GrantPlace.of_cursor(first.rows[-1].cursor)) == ["c *", "d *"]


async def test_projects_have_a_list_with_the_grants_of_their_sessions(ledger: Ledger, clock: TestClock) -> None:
    await fill(ledger, clock)
    await project_as_a_worker(ledger)
    assert await patterns(ledger, 10, None, "shop") == ["a *", "b *"]
    assert await patterns(ledger, 10, None, "shop", "bank") == ["a *", "b *", "d *"]
    assert await patterns(ledger, 10, None, "none") == []


async def test_an_expired_grant_is_not_listed(ledger: Ledger, clock: TestClock) -> None:
    await ledger.grant_in_project("shop", "bash", "x *", expires_in_ms=1000)
    await ledger.grant_in_project("shop", "bash", "y *")
    await project_as_a_worker(ledger)
    clock.advance("2s")
    assert await patterns(ledger) == ["y *"]


async def test_the_last_use_of_a_grant_is_the_latest_of_all_sessions(ledger: Ledger, clock: TestClock) -> None:
    await ledger.grant_in_project("shop", "bash", "git *", grant_id="grn_1")
    for name in ("ses_1", "ses_2", "ses_3"):
        clock.advance("1s")
        await (await ledger.session(name, project="shop")).submit("bash", ["git push"])
        if name == "ses_2":
            await project_as_a_worker(ledger)
            assert [row["last_used_at"] for row in await rows(ledger)] == ["2027-01-15T08:00:02.000Z"]
    assert [row["last_used_at"] for row in await rows(ledger)] == ["2027-01-15T08:00:03.000Z"], "as of the log"
    await project_as_a_worker(ledger)
    assert [row["last_used_at"] for row in await rows(ledger)] == ["2027-01-15T08:00:03.000Z"]
    assert await differences(ledger.store) == []


async def test_a_grant_whose_uses_are_taken_leaves_the_list(ledger: Ledger, clock: TestClock) -> None:
    session = await ledger.session("ses_1", project="shop")
    await ledger.grant_in_project("shop", "bash", "git *", uses=1)
    await project_as_a_worker(ledger)
    assert await patterns(ledger) == ["git *"]
    await session.submit("bash", ["git push"])
    assert await patterns(ledger) == []
    await project_as_a_worker(ledger)
    assert await patterns(ledger) == []
    assert await ledger.store.view_page("standing", "", None) == []


async def test_pages_of_grants_are_those_of_their_streams(ledger: Ledger, clock: TestClock) -> None:
    await fill(ledger, clock)
    told = [row["pattern"] for row in await rows(ledger)]
    for _ in range(2):
        pages = [page async for page in ledger.approved_pages(count=3)]
        assert [one.grant.pattern for page in pages for one in page.items] == told
        after = pages[0].rows[1].cursor
        rest = [one.grant.pattern async for page in ledger.approved_pages(after, 1) for one in page.items]
        assert rest == told[2:]
        await project_as_a_worker(ledger)


async def test_a_page_of_grants_reads_no_other_streams(
    ledger: Ledger, clock: TestClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(ledger, clock)
    await project_as_a_worker(ledger)
    monkeypatch.setattr(ledger.store, "streams_page", None)
    streams = Streams(ledger.store)
    first = await anext(aiter(GrantList(ledger.store, streams).approved_pages(None, 2)))
    assert [one.grant.grant_id for one in first.items] == ["grn_a", "grn_b"]
    assert streams.project("shop").folded
    assert not streams.project("bank").folded
    assert len(await ledger.approved_anywhere()) == len(PATTERNS)
