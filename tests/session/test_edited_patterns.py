"""Patterns that a person gives in place of the offered ones: narrower for everybody, wider for who may grant."""

from __future__ import annotations

import pytest

from ledger.core.errors import NotCoveredError, WiderError
from ledger.core.events import Granted, Replied
from tests.support.commands import asks, opens, replies
from tests.support.scenario import Scenario, given


@pytest.fixture
def scenario() -> Scenario:
    return given(opens(), asks("per_1", "git push origin main", always=("git push *",)))


def granted(scenario: Scenario) -> list[tuple[str, bool]]:
    return [(one.pattern, one.wider) for one in scenario.state.grants.values()]


@pytest.mark.parametrize("pattern", ["git push *", "git push origin *", "git push origin main"])
def test_anybody_may_narrow_what_is_remembered(scenario: Scenario, pattern: str) -> None:
    scenario.given(replies("per_1", "session", patterns=(pattern,)))
    assert granted(scenario) == [(pattern, False)]


@pytest.mark.parametrize("pattern", ["git *", "*", "git push*", "git pus? *"])
def test_nobody_without_the_right_to_grant_widens_it(scenario: Scenario, pattern: str) -> None:
    scenario.when(replies("per_1", "session", patterns=(pattern,))).then_refused(
        WiderError, "WIDER", contains="git push *", patterns=[pattern]
    )
    assert scenario.waiting() == ["per_1"]


def test_who_may_grant_widens_it_and_the_log_says_so(scenario: Scenario) -> None:
    events = scenario.when(
        replies("per_1", "session", patterns=("git *", "git push origin main"), may_widen=True)
    ).events
    replied, *made = events
    assert isinstance(replied, Replied)
    assert replied.wider == replied.grants[:1]
    assert [one.wider for one in made if isinstance(one, Granted)] == [True, False]


@pytest.mark.parametrize("pattern", ["git push upstream *", "git pull *", "npm *"])
@pytest.mark.parametrize("may_widen", [True, False])
def test_patterns_that_do_not_cover_the_request_are_refused(scenario: Scenario, pattern: str, may_widen: bool) -> None:
    scenario.when(replies("per_1", "session", patterns=(pattern,), may_widen=may_widen)).then_refused(
        NotCoveredError, "NOT_COVERED", contains="would not allow request `per_1` itself"
    )


def test_without_an_offer_every_pattern_is_wider() -> None:
    scenario = given(opens(), asks("per_1", "git push"))
    command = replies("per_1", "session", patterns=("git push",))
    scenario.when(command).then_refused(WiderError, "WIDER")
    scenario.given(replies("per_1", "session", patterns=("git push",), may_widen=True))
    assert granted(scenario) == [("git push", True)]


def test_the_call_alone_may_be_remembered_where_the_dialect_offers_it() -> None:
    line = {"command": "git push origin main"}
    ask = asks("per_1", "git push origin main", tool_name="bash", tool_input=line, always=("git push *",))
    scenario = given(opens(), ask, replies("per_1", "session", patterns=("git push origin main",)))
    assert granted(scenario) == [("git push origin main", False)]


def test_the_same_answer_with_other_patterns_is_another_answer(scenario: Scenario) -> None:
    scenario.given(replies("per_1", "session", patterns=("git push origin *",)))
    scenario.when(replies("per_1", "session", patterns=("git push origin *",))).then_nothing_happens()
    assert scenario.when(replies("per_1", "session")).refusal is not None


def test_what_was_edited_is_what_a_release_is_judged_by(scenario: Scenario) -> None:
    scenario.given(asks("per_2", "git push origin dev"), asks("per_3", "git push upstream main"))
    scenario.given(replies("per_1", "session", patterns=("git push origin *",)))
    assert scenario.waiting() == ["per_3"]
