"""A long session is shown in pages: what waits longest, what was settled last, and how long the lists are."""

from __future__ import annotations

import pytest

from ledger import InputError
from ledger.core.packed_records import WHOLE_MAX_COUNT
from ledger.log.history import Moment
from ledger.session.state import SETTLED_PACKING, SessionState, Settled
from tests.support.commands import asks, opens, replies
from tests.support.scenario import given
from workers.presentation.moments import Clients, moment_json, moment_page

SETTLED = 200
WAITING = 5

NOBODY = Clients("online", [])


@pytest.fixture(scope="module")
def state() -> SessionState:
    scenario = given(opens({"bash": "ask"}))
    for number in range(SETTLED):
        scenario.given(asks(f"old_{number}", "ls"), replies(f"old_{number}", "once"))
    for number in range(WAITING):
        scenario.given(asks(f"waiting_{number}", "npm test"))
    return scenario.state


def test_a_page_has_the_newest_settled_and_the_oldest_pending_requests(state: SessionState) -> None:
    page = moment_page(state, [], NOBODY, 3)
    assert page.settled == [f"old_{SETTLED - 3}", f"old_{SETTLED - 2}", f"old_{SETTLED - 1}"]
    assert [one.request.request_id for one in page.pending] == ["waiting_0", "waiting_1", "waiting_2"]
    assert page.counts == {"pending": WAITING, "approved": 0, "clients": 0, "settled": SETTLED}
    assert page.cursor is not None


@pytest.mark.parametrize("limit", [50, SETTLED, SETTLED + 1])
def test_page_by_page_every_settled_request_comes_once_and_in_order(state: SessionState, limit: int) -> None:
    found: list[str] = []
    cursor: str | None = None
    while True:
        page = moment_page(state, [], NOBODY, limit, cursor)
        found = [*page.settled, *found]
        cursor = page.cursor
        if cursor is None:
            break
        assert len(page.settled) == limit
    assert found == [f"old_{number}" for number in range(SETTLED)]


def test_without_a_limit_it_is_everything(state: SessionState) -> None:
    page = moment_page(state, [], NOBODY, None)
    assert (len(page.settled), len(page.pending), page.cursor) == (SETTLED, WAITING, None)


def test_a_page_of_the_newest_unpacks_no_older_request(state: SessionState, monkeypatch: pytest.MonkeyPatch) -> None:
    unpacked: set[bytes] = set()
    unpack = SETTLED_PACKING.unpack

    def noted(packed: bytes) -> Settled:
        unpacked.add(packed)
        return unpack(packed)

    monkeypatch.setattr(SETTLED_PACKING, "unpack", noted)
    row = moment_json(Moment(state, state.version, state.last_ms), [], NOBODY, limit=150)
    assert 50 <= len(unpacked) <= 151 - WHOLE_MAX_COUNT // 2
    assert len(row["state"]["settled"]) == 150
    assert row["counts"]["settled"] == SETTLED


def test_in_brief_the_settled_requests_are_counted_by_outcome(state: SessionState) -> None:
    row = moment_json(Moment(state, state.version, state.last_ms), [], NOBODY, brief=True, limit=50)
    assert row["state"]["settled"] == {"allowed": SETTLED}
    assert row["cursor"] is None


@pytest.mark.parametrize("cursor", ["", "x", "-1", "٤", "9" * 40])
def test_a_strange_cursor_is_refused(state: SessionState, cursor: str) -> None:
    with pytest.raises(InputError, match="is not a cursor that was handed out"):
        moment_page(state, [], NOBODY, 10, cursor)
