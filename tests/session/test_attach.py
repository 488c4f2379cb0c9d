from __future__ import annotations

import pytest
from msgspec.structs import replace

from ledger.core.errors import DifferentRequestError
from ledger.core.events import Asked
from ledger.core.grants import Recorded
from ledger.core.questions import request_digest
from ledger.session.decide import decide
from ledger.session.evolve import evolve
from ledger.session.state import SessionState
from tests.support.commands import AGENT, asks, cancels, closes, opens, replies
from tests.support.salts import recorded_digest
from tests.support.scenario import Scenario, given, later


def test_asking_again_with_the_same_id_attaches_to_the_pending_request() -> None:
    scenario = given(opens(), asks("per_1", "ls"), later("30s")).when(asks("per_1", "ls")).then_nothing_happens()
    assert scenario.waiting() == ["per_1"]


def test_the_retry_of_an_asker_that_died_gets_the_outcome() -> None:
    scenario = given(opens(), asks("per_1", "ls"), replies("per_1", "once"))
    assert scenario.when(asks("per_1", "ls")).then_nothing_happens().result("per_1").outcome == "allowed"


def test_asking_again_after_the_deadline_gets_the_expiry_and_no_second_chance() -> None:
    scenario = given(opens(), asks("per_1", "ls"), later("7d"))
    assert scenario.when(asks("per_1", "ls")).then_nothing_happens().result("per_1").outcome == "expired"


def test_asking_again_attaches_to_what_was_cancelled_too() -> None:
    scenario = given(opens(), asks("per_1", "ls"), cancels("per_1")).when(asks("per_1", "ls")).then_nothing_happens()
    assert scenario.result("per_1").outcome == "cancelled"


def test_asking_again_in_a_closed_session_gets_the_outcome() -> None:
    given(opens(), asks("per_1", "ls"), closes()).when(asks("per_1", "ls")).then_nothing_happens()


def test_the_same_id_with_another_content_is_refused_while_it_waits_and_afterwards() -> None:
    scenario = given(opens(), asks("per_1", "ls"))
    for _ in range(2):
        scenario.when(asks("per_1", "rm x")).then_refused(
            DifferentRequestError,
            "DIFFERENT_REQUEST",
            contains="request `per_1` of session `ses_1` was asked with another content",
            request_id="per_1",
            session="ses_1",
        )
        scenario.given(replies("per_1", "once"))


def test_metadata_is_part_of_the_content() -> None:
    given(opens(), asks("per_1", "ls", metadata={"cwd": "/a"})).when(
        asks("per_1", "ls", metadata={"cwd": "/b"})
    ).then_refused(DifferentRequestError, "DIFFERENT_REQUEST")


def test_the_order_of_keys_in_metadata_is_not() -> None:
    given(opens(), asks("per_1", "ls", metadata={"a": 1, "b": 2})).when(
        asks("per_1", "ls", metadata={"b": 2, "a": 1})
    ).then_nothing_happens()


def test_the_same_id_in_another_folder_is_another_request() -> None:
    given(opens(), asks("per_1", "ls", cwd="/srv/scratch")).when(
        asks("per_1", "ls", cwd="/srv/production")
    ).then_refused(
        DifferentRequestError,
        "DIFFERENT_REQUEST",
        contains="request `per_1` of session `ses_1` was asked in `/srv/scratch`, not in `/srv/production`",
    )


def test_other_words_in_another_folder_are_told_as_other_words() -> None:
    given(opens(), asks("per_1", "ls", cwd="/a")).when(asks("per_1", "rm x", cwd="/b")).then_refused(
        DifferentRequestError, "DIFFERENT_REQUEST", contains="was asked with another content"
    )


def test_a_request_keeps_the_folder_it_was_asked_in() -> None:
    asked = given(opens(), asks("per_1", "ls", cwd="/srv/scratch"))
    assert asked.state.pending["per_1"].cwd == "/srv/scratch"


def _logged_before(asked: Scenario) -> Asked:
    """The last event as it was logged while digests did not cover the session's folder and no entry named one."""
    event = asked.records[-1].event
    assert isinstance(event, Asked)
    assert event.detail is not None
    plain = request_digest(asks("per_1", "ls").question, None)
    return replace(event, digest=plain, detail=replace(event.detail, cwd=None, salt=""))


def _pending_before(session_folder: str | None) -> SessionState:
    """Return a session whose request `per_1` was logged so, by a version that wrote schema 1."""
    opening = given(replace(opens(), cwd=session_folder))
    logged = _logged_before(given(replace(opens(), cwd=session_folder), asks("per_1", "ls")))
    state = opening.state
    return evolve(state, Recorded(logged, AGENT, state.last_ms + 1, state.version + 1, "evt_1"))


@pytest.mark.parametrize("session_folder", [None, "/srv/shop"])
def test_a_request_from_before_folders_is_attached_to_and_keeps_its_digest(session_folder: str | None) -> None:
    old = _pending_before(session_folder)
    assert old.pending["per_1"].cwd == session_folder
    asking = asks("per_1", "ls", cwd=session_folder or "/anywhere")
    assert decide(old, asking, old.last_ms + 1).events == ()
    assert old.pending["per_1"].digest != recorded_digest(asking)


def test_a_request_from_before_folders_is_not_attached_to_from_another_folder() -> None:
    old = _pending_before("/srv/shop")
    with pytest.raises(DifferentRequestError, match="in `/srv/shop`, not in `/srv/production`"):
        decide(old, asks("per_1", "ls", cwd="/srv/production"), old.last_ms + 1)
