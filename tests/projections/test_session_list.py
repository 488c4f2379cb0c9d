"""The sessions in pages as of the log, with any projector or none."""

from __future__ import annotations

import pytest

from ledger import Ledger
from ledger.log.places import ALL, scope_of
from ledger.log.viewed import unprojected
from ledger.stores.port import StreamKey
from ledger.testing import TestClock
from projections.session_list import SessionList
from projections.sessions import Latest
from tests.projections.looking import RULES, project_all
from tests.support.projecting import project_as_a_worker


async def opened(ledger: Ledger, clock: TestClock, *names: str, project: str | None = None) -> None:
    """Open sessions, a second apart."""
    for name in names:
        await ledger.session(name, project=project)
        clock.advance("1s")


async def listed(ledger: Ledger, count: int = 2, after: Latest | None = None, **scope: str) -> list[str]:
    pages = SessionList(ledger.store, ledger.streams, **scope).pages(after, count)
    return [one.row["session"] async for page in pages for one in page.rows]


async def test_without_a_projector_the_streams_are_read(ledger: Ledger, clock: TestClock) -> None:
    await opened(ledger, clock, "ses_1", "ses_2", "ses_3")
    assert await listed(ledger) == ["ses_3", "ses_2", "ses_1"]


async def test_what_the_views_lack_stands_in_its_place_among_what_they_have(ledger: Ledger, clock: TestClock) -> None:
    await opened(ledger, clock, "ses_1", "ses_2", "ses_3", "ses_4")
    await project_as_a_worker(ledger)
    await opened(ledger, clock, "ses_5")
    await (await ledger.attach("ses_2")).submit("bash", ["x"])
    assert await unprojected(ledger.store) == {StreamKey("session", "ses_2"), StreamKey("session", "ses_5")}
    for count in (1, 2, 10):
        assert await listed(ledger, count) == ["ses_2", "ses_5", "ses_4", "ses_3", "ses_1"]


async def test_with_a_projector_that_keeps_up_no_stream_is_looked_for(
    ledger: Ledger, clock: TestClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    await opened(ledger, clock, "ses_1", "ses_2", "ses_3")
    await project_as_a_worker(ledger)
    monkeypatch.setattr(ledger.store, "streams_page", None)
    monkeypatch.setattr(ledger.store, "open", None)
    assert await listed(ledger) == ["ses_3", "ses_2", "ses_1"]


async def test_a_page_begins_after_the_place_that_the_last_one_ended_with(ledger: Ledger, clock: TestClock) -> None:
    await opened(ledger, clock, "ses_1", "ses_2", "ses_3", "ses_4")
    await project_all(ledger)
    (first, *_) = [page async for page in SessionList(ledger.store, ledger.streams).pages(None, 2)]
    await (await ledger.attach("ses_4")).submit("bash", ["x"])
    await opened(ledger, clock, "ses_5")
    assert await listed(ledger, after=Latest.of_cursor(first.rows[-1].cursor)) == ["ses_2", "ses_1"]


async def test_sessions_of_one_moment_come_in_the_order_of_their_ids(ledger: Ledger, clock: TestClock) -> None:
    for name in ("ses_b", "ses_c", "ses_a"):
        await ledger.session(name)
    assert await listed(ledger) == ["ses_a", "ses_b", "ses_c"]
    await project_as_a_worker(ledger)
    assert await listed(ledger) == ["ses_a", "ses_b", "ses_c"]


async def test_a_project_and_a_parent_have_lists_of_their_own(ledger: Ledger, clock: TestClock) -> None:
    await opened(ledger, clock, "ses_1", "ses_2", project="shop")
    await opened(ledger, clock, "bank", "ses_4")
    await ledger.session("child", parent="ses_1", project="bank")
    for _ in range(2):
        assert await listed(ledger, project="shop") == ["ses_2", "ses_1"]
        assert await listed(ledger, project="bank") == ["child"], "a session without a project is in no other's list"
        assert await listed(ledger, parent="ses_1") == ["child"]
        assert await listed(ledger, parent="ses_2") == []
        await project_as_a_worker(ledger)


async def test_a_row_has_the_members_of_the_log_s_own(ledger: Ledger, clock: TestClock) -> None:
    session = await ledger.session("ses_1", project="shop", agent="build", rules=RULES)
    await session.submit("bash", ["x"])
    (before,) = [page.rows async for page in SessionList(ledger.store, ledger.streams).pages(None, 10)]
    await project_as_a_worker(ledger)
    (after,) = [page.rows async for page in SessionList(ledger.store, ledger.streams).pages(None, 10)]
    assert [list(one.row.items()) for one in before] == [list(one.row.items()) for one in after]


async def test_a_session_has_one_place_in_a_list_however_many_events_a_step_has(
    ledger: Ledger, clock: TestClock
) -> None:
    session = await ledger.session("ses_1")
    for number in range(5):
        clock.advance("1s")
        await session.submit("bash", [f"x {number}"])
        if number % 2:
            await project_all(ledger)
    await project_all(ledger)
    for scope in (ALL, scope_of("project", "ses_1")):  # its own as a session without a project
        fields = await ledger.store.view_page("latest", scope, None)
        assert [Latest.of_field(field) for field in fields] == [Latest(session.stream.state.last_ms, "ses_1")]
