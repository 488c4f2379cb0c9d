"""Uses at claims: a call takes one use for one run, at its ask or at its claim, and none for a person's own answer."""

from __future__ import annotations

import pytest

from ledger.core.events import Asked, Claimed, GrantBounds, Reopened
from ledger.core.grants import derived_grant_id
from ledger.core.questions import Runner
from ledger.session.judging import UsesWantedError
from tests.support.commands import (
    asks,
    claims,
    grants,
    grants_in_project,
    opens,
    releases_claim,
    replies,
    revokes,
    revokes_in_project,
    takes_use,
)
from tests.support.scenario import Project, given

GRANT = derived_grant_id("ses_1", "per_1", 0)
RUNNER = Runner("worker", "call_1")


@pytest.fixture
def project() -> Project:
    return Project("shop")


def test_a_claim_takes_no_second_use_for_a_call_that_took_one_at_its_ask(project: Project) -> None:
    ask = asks("per_1", "git push")
    scenario = given(opens(project="shop"), grants_in_project("grn_1", "bash", "git *", uses=1), project=project)
    scenario.given(takes_use("grn_1", "per_1"), ask)
    (claimed,) = scenario.when(claims(ask, RUNNER)).events
    assert isinstance(claimed, Claimed)
    assert claimed.uses == ()
    assert len(project.state.grants["grn_1"].taken) == 1


def test_ask_and_claim_in_one_append_take_one_use() -> None:
    scenario = given(opens(), grants("grn_1", "bash", "git *", uses=2))
    asked_event, claimed = scenario.when(asks("per_1", "git push", claim=RUNNER)).events
    assert isinstance(asked_event, Asked)
    assert isinstance(claimed, Claimed)
    assert (asked_event.uses, claimed.uses) == (("grn_1",), ())
    assert scenario.state.grants["grn_1"].uses_left == 1


def test_a_claim_takes_a_use_of_another_grant_where_the_first_was_revoked() -> None:
    ask = asks("per_1", "git push")
    scenario = given(opens(), grants("grn_1", "bash", "git *", uses=2), ask)
    scenario.given(grants("grn_2", "bash", "git push", uses=1), revokes("grn_1"))
    (claimed,) = scenario.when(claims(ask, RUNNER)).events
    assert isinstance(claimed, Claimed)
    assert claimed.uses == ("grn_2",)
    assert scenario.state.grants["grn_2"].uses_left == 0


def test_a_claim_of_a_projects_use_is_taken_under_the_claim_id(project: Project) -> None:
    ask = asks("per_1", "git push")
    scenario = given(opens(project="shop"), grants_in_project("grn_0", "bash", "git *"), project=project)
    scenario.given(ask, revokes_in_project("grn_0"), grants_in_project("grn_1", "bash", "git *", uses=1))
    refusal = scenario.when(claims(ask, RUNNER)).refusal
    assert isinstance(refusal, UsesWantedError)
    claim_id = refusal.taker.claim_ids[-1]
    assert claim_id.startswith("clm_")
    scenario.given(takes_use("grn_1", "per_1", claim_id=claim_id))
    (claimed,) = scenario.when(claims(ask, RUNNER)).events
    assert isinstance(claimed, Claimed)
    assert (claimed.claim_id, claimed.uses) == (claim_id, ("grn_1",))
    assert project.state.grants["grn_1"].uses_left == 0


def test_a_used_up_grant_does_not_lift_a_call_at_its_claim(project: Project) -> None:
    ask = asks("per_1", "git push")
    scenario = given(opens(project="shop"), grants_in_project("grn_0", "bash", "git *"), project=project)
    scenario.given(ask, revokes_in_project("grn_0"), grants_in_project("grn_1", "bash", "git *", uses=1))
    scenario.given(takes_use("grn_1", "per_9"))
    (reopened,) = scenario.when(claims(ask, RUNNER)).events
    assert isinstance(reopened, Reopened)
    assert scenario.waiting() == ["per_1"]


def test_a_persons_own_answer_stands_at_the_claim_although_others_used_up_its_grant() -> None:
    ask = asks("per_1", "git push", always=("git *",))
    scenario = given(opens(), ask, replies("per_1", "session", bounds=GrantBounds(uses=1)), asks("per_2", "git push"))
    assert scenario.state.grants[GRANT].uses_left == 0
    (claimed,) = scenario.when(claims(ask, RUNNER)).events
    assert isinstance(claimed, Claimed)
    assert claimed.uses == ()


def test_the_run_after_a_released_claim_takes_a_use_of_its_own() -> None:
    ask = asks("per_1", "git push")
    scenario = given(
        opens(), grants("grn_1", "bash", "git *", uses=2), ask, claims(ask, RUNNER), releases_claim("per_1")
    )
    (claimed,) = scenario.when(claims(ask, RUNNER)).events
    assert isinstance(claimed, Claimed)
    assert claimed.uses == ("grn_1",)
    scenario.given(releases_claim("per_1"))
    (reopened,) = scenario.when(claims(ask, RUNNER)).events
    assert isinstance(reopened, Reopened)
