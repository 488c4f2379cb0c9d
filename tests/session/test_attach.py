from __future__ import annotations

from ledger.core.errors import DifferentRequestError
from tests.support.commands import asks, cancels, closes, opens, replies
from tests.support.scenario import given, later


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
