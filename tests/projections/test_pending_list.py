"""The pending requests in pages as of the log, with any projector or none."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from ledger import InputError, Ledger, Timeouts
from ledger.client.pending_list import PendingList
from ledger.log.places import ALL, WAITING_VIEW, WaitingPlace, scope_of
from ledger.log.streams import Streams
from ledger.session.state import SessionState
from ledger.stores.port import StreamKey
from ledger.testing import TestClock
from projections.projection import listed
from projections.views import Changes
from tests.projections.looking import differences, project_all
from tests.support.projecting import project_as_a_worker

SOON, LATER, NEVER = Timeouts(unattended=100, cap=None), Timeouts(unattended=300, cap=None), Timeouts(unattended=None)


async def asked(
    ledger: Ledger, clock: TestClock, *names: str, timeouts: Timeouts = LATER, project: str | None = None
) -> None:
    """Ask `SESSION/REQUEST` in their sessions, a second apart."""
    for name in names:
        session, _, request_id = name.partition("/")
        opened = await ledger.session(session, project=project, timeouts=timeouts, rules=[])
        await opened.submit("bash", [request_id], request_id=request_id)
        clock.advance("1s")


async def fill(ledger: Ledger, clock: TestClock) -> None:
    await asked(ledger, clock, "ses_never/a", timeouts=NEVER)
    await asked(ledger, clock, "ses_later/b", "ses_last/c")
    await asked(ledger, clock, "ses_soon/d", "ses_soon/e", timeouts=SOON)


IN_ORDER = ["d", "e", "b", "c", "a"]


async def shown(
    ledger: Ledger, count: int = 2, after: WaitingPlace | None = None, scopes: tuple[str, ...] = (ALL,)
) -> list[str]:
    pages = PendingList(ledger.store, ledger.streams, scopes=scopes).pages(after, count)
    return [one.pending.request.request_id async for page in pages for one in page.items]


async def test_the_nearest_deadline_comes_first_with_a_projector_or_without(ledger: Ledger, clock: TestClock) -> None:
    await fill(ledger, clock)
    for _ in range(2):
        for count in (1, 2, 3, 10):
            assert await shown(ledger, count) == IN_ORDER
        await project_as_a_worker(ledger)


async def test_with_a_projector_that_keeps_up_only_the_sessions_of_a_page_are_read(
    ledger: Ledger, clock: TestClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(ledger, clock)
    await project_as_a_worker(ledger)
    monkeypatch.setattr(ledger.store, "streams_page", None)
    monkeypatch.setattr(ledger.store, "due", None)
    streams = Streams(ledger.store)
    first = await anext(PendingList(ledger.store, streams).pages(None, 2))
    assert [one.state.session_id for one in first.items] == ["ses_soon", "ses_soon"]
    assert streams.session("ses_soon").folded
    assert not streams.session("ses_later").folded


async def test_what_was_asked_and_answered_since_the_views_were_made_is_told(ledger: Ledger, clock: TestClock) -> None:
    await fill(ledger, clock)
    await project_as_a_worker(ledger)
    await ledger.reply("e", "once", actor="ann")
    await ledger.reply("b", "reject", actor="ann")
    await asked(ledger, clock, "ses_new/f", timeouts=SOON)
    for count in (1, 2, 10):
        assert await shown(ledger, count) == ["d", "f", "c", "a"]
    await project_as_a_worker(ledger)
    assert await shown(ledger) == ["d", "f", "c", "a"]


async def test_where_no_projector_has_compared_the_views_they_are_not_believed(
    ledger: Ledger, clock: TestClock
) -> None:
    await fill(ledger, clock)
    await project_all(ledger)
    await ledger.reply("d", "once", actor="ann")
    assert await shown(ledger) == ["e", "b", "c", "a"]


async def test_a_page_begins_after_the_place_that_the_last_one_ended_with(ledger: Ledger, clock: TestClock) -> None:
    await fill(ledger, clock)
    for _ in range(2):
        seen: list[str] = []
        cursor: str | None = None
        while True:
            page = await anext(aiter(ledger.pending_pages(cursor, 2)))
            seen += [one.request.request_id for one in page.items]
            cursor = page.cursor
            if cursor is None:
                break
        assert seen == IN_ORDER
        await project_as_a_worker(ledger)
    first = await anext(aiter(ledger.pending_pages(None, 2)))
    await ledger.reply("d", "once", actor="ann")
    await asked(ledger, clock, "ses_zero/z", timeouts=Timeouts(unattended=1, cap=None))
    rest = [one.request.request_id async for page in ledger.pending_pages(first.cursor, 2) for one in page.items]
    assert rest == ["b", "c", "a"]


async def test_a_request_is_in_one_place_when_its_deadline_moves(ledger: Ledger, clock: TestClock) -> None:
    await asked(ledger, clock, "ses_1/a", "ses_2/b", timeouts=SOON)
    await project_as_a_worker(ledger)
    clock.advance("90s")
    await (await ledger.attach("ses_1")).connect("phone", actor="ann")
    assert await shown(ledger) == ["b", "a"]
    await project_as_a_worker(ledger)
    assert await shown(ledger) == ["b", "a"]
    fields = await ledger.store.view_page(WAITING_VIEW, "", None)
    assert len(fields) == 8, "each in the lists of all, in its own as a session without a project, and by its id"


async def test_a_project_and_a_token_have_lists_of_their_own(ledger: Ledger, clock: TestClock) -> None:
    await asked(ledger, clock, "ses_1/a", project="shop")
    await asked(ledger, clock, "ses_2/b", project="bank")
    own = await ledger.session("ses_3", project="shop", token_id="tok_1", rules=[])
    await own.submit("bash", ["c"], request_id="c")
    for _ in range(2):
        assert await shown(ledger, scopes=(scope_of("project", "shop"),)) == ["a", "c"]
        assert await shown(ledger, scopes=(scope_of("token", "tok_1"),)) == ["c"]
        assert await shown(ledger, scopes=(scope_of("project", "bank"), scope_of("token", "tok_1"))) == ["b", "c"]
        assert await shown(ledger, scopes=(scope_of("project", "none"),)) == []
        await project_as_a_worker(ledger)


async def test_nothing_is_left_in_the_view_of_what_was_answered(ledger: Ledger, clock: TestClock) -> None:
    await asked(ledger, clock, "ses_1/a", "ses_1/b")
    await project_all(ledger)
    await ledger.reply("a", "once", actor="ann")
    await ledger.reply("b", "once", actor="ann")
    await asked(ledger, clock, "ses_1/c")
    await ledger.reply("c", "once", actor="ann")
    await project_all(ledger)
    assert await ledger.store.view_page(WAITING_VIEW, "", None) == []
    assert await differences(ledger.store) == []


def test_a_place_left_taken_and_left_again_in_one_step_is_left() -> None:
    key = StreamKey("session", "ses_1")
    changes, place = Changes(key, SessionState(session_id="ses_1")), listed(WAITING_VIEW, "x")
    gone = replace(place, value=None)
    changes.add([place, gone])
    assert changes.rows() == []
    changes.add([gone, place, gone])
    assert changes.rows() == [gone]


@pytest.mark.parametrize(
    "cursor", ["", "x", "1-2-3", "1-2-x-ses_1", "never-2-3-", "-1-2-3-ses_1", "1-2-3-a b", "9" * 16 + "-1-1-s"]
)
async def test_a_cursor_that_was_not_handed_out_is_refused(ledger: Ledger, cursor: str) -> None:
    with pytest.raises(InputError):
        await anext(aiter(ledger.pending_pages(cursor)))


@pytest.mark.parametrize("count", [0, -1, 10_001])
async def test_a_page_has_a_bound(ledger: Ledger, count: int) -> None:
    with pytest.raises(InputError, match="a page has 1 to 10000 rows"):
        await anext(aiter(ledger.pending_pages(None, count)))
    with pytest.raises(InputError, match="a page has 1 to 10000 rows"):
        await anext(aiter(ledger.approved_pages(None, count)))


def test_a_cursor_says_its_place() -> None:
    for place in (WaitingPlace(5, 4, "a-b", 3), WaitingPlace(None, 4, "ses_1", 1)):
        assert WaitingPlace.of_cursor(place.cursor) == place
        at = place._replace(request_id="r")
        assert WaitingPlace.of_field(ALL + at.order) == at
        assert at.order < WaitingPlace.of_cursor(at.cursor).order
