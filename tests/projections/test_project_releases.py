"""A grant for a project releases what waits in that project, and reads the sessions of no other that the views know."""

from __future__ import annotations

import pytest

from ledger import Ledger
from ledger.log.stream import Stream
from ledger.log.viewed import projects_of
from ledger.session.state import SessionState
from ledger.testing import TestClock
from tests.support.projecting import project_as_a_worker

SESSIONS = {"ses_1": "shop", "ses_2": "shop", "ses_3": "bank", "ses_4": None}


async def wait_in(ledger: Ledger, session: str, project: str | None) -> None:
    opened = await ledger.session(session, project=project, cascade_always="project", rules=[])
    await opened.submit("bash", ["git push"], request_id=f"{session}-call")


async def outcomes(ledger: Ledger, *sessions: str) -> list[str | None]:
    return [(await (await ledger.attach(one)).result(f"{one}-call")).outcome for one in sessions]


async def wait_everywhere(ledger: Ledger) -> None:
    for session, project in SESSIONS.items():
        await wait_in(ledger, session, project)


async def test_only_waiting_sessions_of_the_project_are_read(
    ledger: Ledger, clock: TestClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    await wait_everywhere(ledger)
    await project_as_a_worker(ledger)
    streams, read = ledger.streams, list[str]()
    session_of = streams.session

    def reading(session: str) -> Stream[SessionState]:
        read.append(session)
        return session_of(session)

    monkeypatch.setattr(streams, "session", reading)
    await ledger.grant_in_project("shop", "bash", "git *", actor="ann")
    assert set(read) == {"ses_1", "ses_2"}
    assert await outcomes(ledger, *SESSIONS) == ["allowed", "allowed", None, None]


@pytest.mark.parametrize("views", ["none", "of the others"])
async def test_a_session_that_no_projector_has_come_to_is_released_too(
    ledger: Ledger, clock: TestClock, views: str
) -> None:
    await wait_everywhere(ledger)
    if views == "of the others":
        await project_as_a_worker(ledger)
    await wait_in(ledger, "ses_new", "shop")
    await ledger.grant_in_project("shop", "bash", "git *", actor="ann")
    assert await outcomes(ledger, *SESSIONS, "ses_new") == ["allowed", "allowed", None, None, "allowed"]


async def test_the_projects_of_sessions_are_those_of_the_views_and_none_for_others(
    ledger: Ledger, clock: TestClock
) -> None:
    await wait_everywhere(ledger)
    assert await projects_of(ledger.store, SESSIONS) == {}
    await project_as_a_worker(ledger)
    assert await projects_of(ledger.store, [*SESSIONS, "ses_nowhere"]) == SESSIONS
