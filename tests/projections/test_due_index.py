"""The index of deadlines: made anew by `rebuild`, compared by `rebuild --verify`, and never trusted."""

from __future__ import annotations

import pytest

from ledger import Ledger, Timeouts
from ledger.log.due_index import lacking
from ledger.stores.port import NOTHING_DUE, Due
from ledger.testing import TestClock
from projections.engine import Engine
from tests.api.actors import pend
from tests.projections.looking import differences, project_all, rebuild_all
from tests.support.due_index import WRONG, set_hint

NEVER = Timeouts(attended=None, unattended=None)


@pytest.mark.parametrize("wrong", WRONG)
async def test_a_rebuild_makes_wrong_entries_anew_from_the_log(ledger: Ledger, wrong: str) -> None:
    await pend(await ledger.session("ses_1"), "r")
    await pend(await ledger.session("ses_2", timeouts=NEVER), "r")
    answered = await ledger.session("ses_3")
    await pend(answered, "r")
    await answered.reply("r", "once", actor="ann")
    before = await ledger.store.due(None, 10)
    assert [session for session, _ in before] == ["ses_1", "ses_2"]
    for number in (1, 2, 3):
        await set_hint(ledger, f"ses_{number}", WRONG[wrong])
    await rebuild_all(ledger.store)
    assert await ledger.store.due(None, 10) == before
    assert await differences(ledger.store) == []


async def test_a_comparison_names_what_the_index_lacks_and_has_too_much(ledger: Ledger, clock: TestClock) -> None:
    asked = await pend(await ledger.session("ses_1"), "r")
    await ledger.session("ses_2")
    await project_all(ledger)
    assert await differences(ledger.store) == []
    await set_hint(ledger, "ses_1", NOTHING_DUE)
    await set_hint(ledger, "ses_2", Due(None))
    found = {one.key: (one.view, one.live, one.rebuilt) for one in await differences(ledger.store)}
    deadline = str(asked.request.deadline_ms).encode()
    assert found == {"ses_1": ("due", None, deadline), "ses_2": ("due", b'"never"', None)}


async def test_a_session_that_went_on_is_behind_and_no_difference(ledger: Ledger) -> None:
    session = await ledger.session("ses_1")
    await project_all(ledger)
    await pend(session, "r")
    assert await differences(ledger.store) == []


@pytest.mark.parametrize("wrong", WRONG)
async def test_the_pending_views_tell_what_would_be_settled_too_late(ledger: Ledger, wrong: str) -> None:
    await pend(await ledger.session("ses_1"), "r")
    await pend(await ledger.session("ses_2"), "r")
    await project_all(ledger, Engine(ledger.store))
    assert [page async for page in lacking(ledger.store)] == [{}]
    await set_hint(ledger, "ses_1", WRONG[wrong])
    (seen_ms,) = await ledger.store.due_of(["ses_1"])
    assert [page async for page in lacking(ledger.store)] == ([{}] if wrong == "too early" else [{"ses_1": seen_ms}])
