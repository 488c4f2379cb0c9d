"""Grants with a limit of uses: each allowed call takes one, once, and a used-up grant lifts nothing."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from ledger.core.errors import InputError
from ledger.core.events import Asked, GrantBounds, Granted, Replied, UseTaken
from ledger.core.grants import Taker, derived_grant_id
from ledger.policy import Verdict
from ledger.session.judging import UsesWantedError
from tests.support.commands import (
    asks,
    grants,
    grants_in_project,
    opens,
    rechecks,
    releases,
    replies,
    revokes,
    revokes_in_project,
    takes_use,
)
from tests.support.scenario import Project, Scenario, given, later, ms

GRANT = derived_grant_id("ses_1", "per_1", 0)


def asked(scenario: Scenario, request_id: str, pattern: str = "git push") -> Asked:
    (event,) = scenario.when(asks(request_id, pattern)).events
    assert isinstance(event, Asked)
    return event


# --- the session's own grants


def test_each_call_takes_one_use_in_the_append_of_its_allow() -> None:
    scenario = given(opens(), grants("grn_1", "bash", "git *", uses=2))
    first = asked(scenario, "per_1")
    assert (first.verdict, first.grants, first.uses) == (Verdict.ALLOW, ("grn_1",), ("grn_1",))
    assert scenario.state.grants["grn_1"].uses_left == 1
    assert asked(scenario, "per_2").verdict is Verdict.ALLOW
    assert scenario.state.grants["grn_1"].uses_left == 0
    assert asked(scenario, "per_3").verdict is Verdict.ASK


def test_asking_again_with_the_same_id_takes_no_other_use() -> None:
    scenario = given(opens(), grants("grn_1", "bash", "git *", uses=2), asks("per_1", "git push"))
    scenario.when(asks("per_1", "git push")).then_nothing_happens()
    assert scenario.state.grants["grn_1"].uses_left == 1


def test_a_call_that_another_grant_allows_takes_no_use() -> None:
    scenario = given(opens(), grants("grn_1", "bash", "git *", uses=1), grants("grn_2", "bash", "git push"))
    assert asked(scenario, "per_1").grants == ("grn_2",)
    assert scenario.state.grants["grn_1"].uses_left == 1


def test_a_call_that_a_rule_allows_takes_no_use() -> None:
    scenario = given(opens({"bash": {"git push": "allow"}}), grants("grn_1", "bash", "git *", uses=1))
    assert asked(scenario, "per_1").uses == ()
    assert scenario.state.grants["grn_1"].uses_left == 1


def test_of_two_grants_with_a_limit_one_is_spared() -> None:
    scenario = given(opens(), grants("grn_1", "bash", "git *", uses=1), grants("grn_2", "bash", "git push", uses=1))
    assert asked(scenario, "per_1").uses == ("grn_1",)
    assert asked(scenario, "per_2").uses == ("grn_2",)
    assert asked(scenario, "per_3").verdict is Verdict.ASK


def test_a_call_that_needs_two_grants_takes_a_use_of_both() -> None:
    scenario = given(opens(), grants("grn_1", "bash", "git *", uses=1), grants("grn_2", "bash", "npm *", uses=2))
    (event,) = scenario.when(asks("per_1", "git push", "npm test")).events
    assert isinstance(event, Asked)
    assert set(event.uses) == {"grn_1", "grn_2"}
    assert [scenario.state.grants[one].uses_left for one in ("grn_1", "grn_2")] == [0, 1]


def test_a_call_that_is_asked_about_all_the_same_takes_no_use() -> None:
    scenario = given(opens(), grants("grn_1", "bash", "git *", uses=1))
    (event,) = scenario.when(asks("per_1", "git push", "npm test")).events
    assert isinstance(event, Asked)
    assert (event.verdict, event.uses) == (Verdict.ASK, ())
    assert scenario.state.grants["grn_1"].uses_left == 1


def test_a_denied_call_takes_no_use() -> None:
    scenario = given(opens({"bash": {"git push": "deny"}}), grants("grn_1", "bash", "git *", uses=1))
    assert asked(scenario, "per_1").uses == ()


@pytest.mark.parametrize("ended", [later("1h"), revokes("grn_1")])
def test_an_ended_grant_lifts_nothing_however_many_uses_are_left(ended: object) -> None:
    scenario = given(opens(), grants("grn_1", "bash", "git *", uses=5, expires_in_ms=ms("1h")), ended)  # type: ignore[arg-type]
    assert asked(scenario, "per_1").verdict is Verdict.ASK


# --- answers


def test_an_answer_makes_a_grant_with_its_bounds_and_the_call_itself_takes_no_use() -> None:
    scenario = given(opens(), asks("per_1", "git push", always=("git *",)))
    bounds = GrantBounds(ms("1h"), 2)
    replied, granted = scenario.when(replies("per_1", "session", bounds=bounds)).events
    assert isinstance(replied, Replied)
    assert isinstance(granted, Granted)
    assert (replied.bounds, granted.expires_in_ms, granted.uses) == (bounds, ms("1h"), 2)
    assert [asked(scenario, f"per_{number}").verdict for number in (2, 3, 4)] == [Verdict.ALLOW] * 2 + [Verdict.ASK]


@pytest.mark.parametrize("reply", ["once", "reject"])
def test_bounds_of_an_answer_that_remembers_nothing_are_refused(reply: str) -> None:
    scenario = given(opens(), asks("per_1", "git push", always=("git *",)))
    command = replies("per_1", reply, bounds=GrantBounds(uses=1))  # type: ignore[arg-type]
    scenario.when(command).then_refused(InputError, "INPUT", contains="remembers nothing")
    assert scenario.waiting() == ["per_1"]


def test_an_answer_releases_others_only_within_its_uses() -> None:
    scenario = given(opens(), *(asks(f"per_{number}", "git push", always=("git *",)) for number in range(1, 6)))
    scenario.given(replies("per_1", "session", bounds=GrantBounds(uses=2)))
    assert scenario.waiting() == ["per_4", "per_5"]
    assert scenario.state.grants[GRANT].uses_left == 0
    assert [one.uses for one in _replied(scenario)] == [(), (GRANT,), (GRANT,)]


def _replied(scenario: Scenario) -> list[Replied]:
    return [one.event for one in scenario.records if isinstance(one.event, Replied)]


def test_the_same_answer_with_other_bounds_is_another_answer() -> None:
    scenario = given(opens(), asks("per_1", "git push", always=("git *",)))
    scenario.given(replies("per_1", "session", bounds=GrantBounds(uses=2)))
    scenario.when(replies("per_1", "session", bounds=GrantBounds(uses=2))).then_nothing_happens()
    assert scenario.when(replies("per_1", "session")).refusal is not None
    assert scenario.when(replies("per_1", "session", bounds=GrantBounds(uses=3))).refusal is not None


def test_a_grant_with_bounds_does_not_replace_one_without() -> None:
    scenario = given(
        opens(), grants("grn_1", "bash", "git *", uses=1), asks("per_1", "ls", "git push", always=("git *",))
    )
    scenario.given(replies("per_1", "session"))
    assert sorted(str(one.uses) for one in scenario.state.grants.values()) == ["1", "None"]


def test_an_answer_that_repeats_a_standing_grant_makes_none_with_bounds() -> None:
    scenario = given(opens(), grants("grn_1", "bash", "git *"), asks("per_1", "ls", "git push", always=("git *",)))
    scenario.given(replies("per_1", "session", bounds=GrantBounds(uses=1)))
    assert list(scenario.state.grants) == ["grn_1"]


# --- a project's grants


@pytest.fixture
def project() -> Project:
    return Project("shop")


@pytest.fixture
def scenario(project: Project) -> Scenario:
    return given(opens(project="shop"), grants_in_project("grn_1", "bash", "git *", uses=1), project=project)


def test_a_use_of_a_projects_grant_is_taken_before_the_call_is_allowed(scenario: Scenario, project: Project) -> None:
    refusal = scenario.when(asks("per_1", "git push")).refusal
    assert isinstance(refusal, UsesWantedError)
    assert (refusal.taker, refusal.grant_ids) == (Taker("ses_1", "per_1"), ("grn_1",))
    scenario.given(takes_use("grn_1", "per_1"))
    event = asked(scenario, "per_1")
    assert (event.verdict, event.uses, event.rests_on_project) == (Verdict.ALLOW, ("grn_1",), True)
    assert project.state.grants["grn_1"].uses_left == 0


def test_the_last_use_goes_to_one_call(scenario: Scenario, project: Project) -> None:
    scenario.given(takes_use("grn_1", "per_1"))
    assert project.decide(takes_use("grn_1", "per_2"), scenario.now_ms) == ()
    assert asked(scenario, "per_2").verdict is Verdict.ASK
    assert asked(scenario, "per_1").verdict is Verdict.ALLOW


def test_a_use_is_taken_once_by_the_same_call(scenario: Scenario, project: Project) -> None:
    (taken,) = project.decide(takes_use("grn_1", "per_1", claim_id="clm_1"), scenario.now_ms)
    assert taken == UseTaken(grant_id="grn_1", session="ses_1", request_id="per_1", claim_id="clm_1")
    assert project.decide(takes_use("grn_1", "per_1", claim_id="clm_1"), scenario.now_ms) == ()


def test_the_same_claim_id_of_another_session_or_request_is_another_call(scenario: Scenario, project: Project) -> None:
    scenario.given(takes_use("grn_1", "per_1", claim_id="clm_1"))
    for other in (takes_use("grn_1", "per_1", session="ses_2", claim_id="clm_1"), takes_use("grn_1", "per_2")):
        assert project.decide(other, scenario.now_ms) == ()
        assert not project.state.grants["grn_1"].is_held(Taker(other.session, other.request_id, (other.claim_id,)))


def test_a_request_whose_id_is_a_claims_id_holds_nothing_of_that_claim(scenario: Scenario) -> None:
    scenario.given(takes_use("grn_1", "per_1", claim_id="clm_1"))
    assert asked(scenario, "clm_1").verdict is Verdict.ASK


@pytest.mark.parametrize("ended", ["1h", None])
def test_no_use_of_an_ended_grant_is_taken(project: Project, ended: str | None) -> None:
    scenario = given(opens(project="shop"), project=project)
    scenario.given(grants_in_project("grn_1", "bash", "git *", uses=1, expires_in_ms=ms("1h")))
    scenario.given(revokes_in_project("grn_1") if ended is None else later(ended))
    assert project.decide(takes_use("grn_1", "per_1"), scenario.now_ms) == ()


def test_a_held_use_does_not_outlive_the_grant(scenario: Scenario) -> None:
    scenario.given(takes_use("grn_1", "per_1"), revokes_in_project("grn_1"))
    assert asked(scenario, "per_1").verdict is Verdict.ASK


def test_a_recheck_keeps_the_allow_of_the_call_that_holds_the_last_use(scenario: Scenario) -> None:
    ask = asks("per_1", "git push")
    scenario.given(takes_use("grn_1", "per_1"), ask)
    scenario.when(rechecks(ask)).then_nothing_happens()
    scenario.given(revokes_in_project("grn_1"), rechecks(ask))
    assert scenario.waiting() == ["per_1"]


def test_a_release_by_the_projects_grants_takes_a_use_first(project: Project) -> None:
    scenario = given(opens(project="shop"), asks("per_1", "git push"), project=project)
    scenario.given(grants_in_project("grn_2", "bash", "git *", uses=1))
    scenario.when(releases()).then_nothing_happens()
    refusal = scenario.when(releases("per_1")).refusal
    assert isinstance(refusal, UsesWantedError)
    scenario.given(takes_use("grn_2", "per_1"))
    (event,) = scenario.when(releases("per_1")).events
    assert isinstance(event, Replied)
    assert (event.outcome, event.uses, event.rests_on_project) == ("allowed", ("grn_2",), True)


def test_an_always_with_uses_releases_nothing_before_its_grant_is_in_the_project(project: Project) -> None:
    scenario = given(opens(project="shop"), project=project)
    scenario.given(*(asks(f"per_{number}", "git push", always=("git *",)) for number in (1, 2)))
    scenario.given(replies("per_1", "always", bounds=GrantBounds(uses=1)))
    assert scenario.waiting() == ["per_2"]
    assert project.state.grants[GRANT].uses == 1


def test_a_late_repair_writes_the_grant_with_the_bounds_of_the_reply(project: Project) -> None:
    command = grants_in_project("grn_1", "bash", "git *", uses=3, expires_in_ms=ms("1h"))
    at_ms = 1_800_000_000_000
    late = replace(command, expires_at_ms=at_ms + ms("1h"))
    (granted,) = project.decide(late, at_ms + ms("45m"))
    assert isinstance(granted, Granted)
    assert (granted.expires_in_ms, granted.uses) == (ms("15m"), 3)
    (expired,) = Project("shop").decide(late, at_ms + ms("2h"))
    assert isinstance(expired, Granted)
    assert expired.expires_in_ms == 0
