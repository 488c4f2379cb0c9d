from __future__ import annotations

import pytest

from ledger.core.codec import NewerEvent
from ledger.core.errors import AlreadyAnsweredError, InputError, NewerSchemaError, UnknownGrantError
from ledger.core.events import (
    Asked,
    Cancelled,
    Cause,
    Granted,
    GrantedDetail,
    Reopened,
    ReopenedDetail,
    Replied,
    RepliedDetail,
    Revoked,
)
from ledger.core.grants import derived_event_id, derived_grant_id
from ledger.policy import Evaluation, Part, RuleRef, Verdict
from ledger.project import decide_project
from tests.support.commands import (
    ANN,
    asks,
    closes,
    grants_in_project,
    has_inbox_open,
    opens,
    rechecks,
    releases,
    replies,
    revokes_in_project,
)
from tests.support.salts import recorded_digest
from tests.support.scenario import T0, Project, Scenario, given, later, ms

GRANT = derived_grant_id("ses_1", "per_1", 0)
ASKED = asks("per_1", "git push")
NO_RULE = Evaluation(
    Verdict.ASK,
    (Part("git push", Verdict.ASK),),
    reason="no rule matches, and the default is ask",
    effect="changes_elsewhere",
)

CHANGED = "the grants of the project changed, and no longer allow it"


@pytest.fixture
def project() -> Project:
    return Project("shop")


@pytest.fixture
def scenario(project: Project) -> Scenario:
    return given(opens(project="shop"), project=project)


def second(project: Project) -> Scenario:
    return Scenario("ses_2", project).given(opens(project="shop"))


def test_always_is_written_to_the_session_and_granted_to_the_project(scenario: Scenario, project: Project) -> None:
    scenario.given(asks("per_1", "git push", always=("git *",))).when(replies("per_1", "always")).then(
        Replied(
            request_id="per_1",
            reply="always",
            outcome="allowed",
            scope="project",
            grants=(GRANT,),
            detail=RepliedDetail(None, ("git *",)),
        )
    )
    assert scenario.state.settled["per_1"].granted_to_project
    grant = project.state.grants[GRANT]
    assert (grant.scope, grant.session, grant.request_id, grant.by) == ("project", "ses_1", "per_1", ANN)


def test_a_projects_grant_reaches_all_its_sessions(scenario: Scenario, project: Project) -> None:
    scenario.given(asks("per_1", "git push", always=("git *",)), replies("per_1", "always"))
    ask = asks("per_1", "git pull")
    other = second(project).when(ask)
    (asked,) = other.events
    assert isinstance(asked, Asked)
    assert (asked.verdict, asked.grants, asked.project_version, asked.rests_on_project) == (
        Verdict.ALLOW,
        (GRANT,),
        1,
        True,
    )


def test_always_leaves_what_other_sessions_have_pending(scenario: Scenario, project: Project) -> None:
    other = second(project).given(asks("per_2", "git push"))
    scenario.given(asks("per_1", "git push", always=("git *",)), replies("per_1", "always"))
    assert other.waiting() == ["per_2"]


def test_a_release_ends_what_the_projects_grants_now_allow(scenario: Scenario, project: Project) -> None:
    other = second(project).given(asks("per_2", "git push"), asks("per_3", "ls"))
    scenario.given(asks("per_1", "git push", always=("git *",)), replies("per_1", "always"))
    other.when(releases()).then(
        Replied(
            request_id="per_2",
            reply="always",
            outcome="allowed",
            cause=Cause(kind="grant", grant_id=GRANT),
            rests_on_project=True,
            project_version=1,
        )
    )
    assert other.waiting() == ["per_3"]
    other.when(releases()).then_nothing_happens()


def test_a_release_is_taken_back_when_the_grant_was_revoked_before_the_agent_was_told(
    scenario: Scenario, project: Project
) -> None:
    other = second(project).given(asks("per_2", "git push"))
    scenario.given(asks("per_1", "git push", always=("git *",)), replies("per_1", "always"))
    other.given(releases())
    scenario.given(revokes_in_project(GRANT))
    other.given(rechecks(asks("per_2", "git push")))
    assert other.waiting() == ["per_2"]


def test_what_a_person_allowed_is_not_taken_back_with_a_grant(scenario: Scenario, project: Project) -> None:
    scenario.given(asks("per_1", "git push", always=("git *",)), replies("per_1", "always"))
    scenario.given(revokes_in_project(GRANT))
    scenario.when(rechecks(asks("per_1", "git push", always=("git *",)))).then_nothing_happens()


def test_a_release_may_be_for_one_request_alone(scenario: Scenario) -> None:
    scenario.given(asks("per_1", "git log"), asks("per_2", "git fetch"), grants_in_project("grn_1", "bash", "git *"))
    scenario.given(releases("per_2"))
    assert scenario.waiting() == ["per_1"]


def test_a_release_of_what_is_not_pending_does_nothing(scenario: Scenario) -> None:
    scenario.when(releases("per_9")).then_nothing_happens()


def test_a_cascade_counts_the_projects_grants_too(scenario: Scenario) -> None:
    scenario.given(
        asks("per_1", "git push", always=("git *",)),
        asks("per_2", "git pull", "ls -l"),
        grants_in_project("grn_1", "bash", "ls *"),
        replies("per_1", "session"),
    )
    assert scenario.waiting() == []


def test_an_allow_by_a_projects_expiring_grant_must_be_written_before_it_ends(scenario: Scenario) -> None:
    scenario.given(grants_in_project("grn_1", "bash", "*", expires_in_ms=ms("1h")))
    assert scenario.decision(ASKED).not_after_ms == T0 + ms("1h") - 1


def test_what_was_allowed_by_a_grant_revoked_meanwhile_waits_for_a_person_after_all(scenario: Scenario) -> None:
    scenario.given(grants_in_project("grn_1", "bash", "*"), ASKED, revokes_in_project("grn_1"), later("1s"))
    scenario.when(rechecks(ASKED)).then(
        Reopened(
            request_id="per_1",
            verdict=Verdict.ASK,
            tier="unattended",
            duration_ms=ms("7d"),
            unattended_ms=ms("7d"),
            cap_ms=ms("30d"),
            project_version=2,
            round=2,
            cause="grants",
            detail=ReopenedDetail(NO_RULE, reason=CHANGED),
        )
    )
    request = scenario.state.pending["per_1"]
    assert (request.deadline_ms, request.cap_at_ms) == (T0 + ms("1s") + ms("7d"), T0 + ms("1s") + ms("30d"))
    assert (request.evaluation, request.grants, request.rests_on_project) == (NO_RULE, (), False)
    assert (request.asked_ms, request.digest) == (T0, recorded_digest(ASKED))


def test_a_reopened_request_takes_an_answer_like_any_other(scenario: Scenario) -> None:
    scenario.given(grants_in_project("grn_1", "bash", "*"), ASKED, revokes_in_project("grn_1"), rechecks(ASKED))
    scenario.when(rechecks(ASKED)).then_nothing_happens()
    scenario.given(replies("per_1", "once", round_=2))
    assert scenario.result("per_1").outcome == "allowed"
    scenario.when(rechecks(ASKED)).then_nothing_happens()


def test_who_has_the_inbox_open_attends_a_reopened_request(scenario: Scenario) -> None:
    scenario.given(grants_in_project("grn_1", "bash", "*"), ASKED, revokes_in_project("grn_1"), has_inbox_open("phone"))
    scenario.given(rechecks(ASKED))
    request = scenario.state.pending["per_1"]
    assert (request.tier, request.deadline_ms) == ("attended", T0 + ms("60s"))
    assert "phone" in scenario.state.clients


def test_a_recheck_judges_by_the_rules_of_now_and_may_deny(project: Project) -> None:
    scenario = given(opens(project="shop"), grants_in_project("grn_1", "bash", "*"), ASKED, project=project)
    scenario.given(opens({"bash": "deny"}), revokes_in_project("grn_1"))
    rule = RuleRef("bash * deny", "project", "opencode.json")
    evaluation = Evaluation(
        Verdict.DENY,
        (Part("git push", Verdict.DENY, (rule,), liftable=False),),
        (rule,),
        "The user has specified a rule which prevents you from using this specific tool call. Here are some of the "
        'relevant rules [{"permission":"bash","pattern":"*","action":"deny"}]',
    )
    scenario.when(rechecks(ASKED)).then(
        Reopened(
            request_id="per_1",
            verdict=Verdict.DENY,
            project_version=2,
            cause="grants",
            detail=ReopenedDetail(evaluation, reason=CHANGED),
        )
    )
    assert (scenario.result("per_1").outcome, scenario.result("per_1").message) == ("denied", evaluation.message)


def test_a_recheck_finds_nothing_to_do_while_another_grant_allows(scenario: Scenario) -> None:
    scenario.given(grants_in_project("grn_1", "bash", "*"), ASKED, grants_in_project("grn_2", "bash", "git *"))
    scenario.given(revokes_in_project("grn_1")).when(rechecks(ASKED)).then_nothing_happens()


def test_a_recheck_of_an_allow_that_rests_on_no_project_grant_does_nothing(project: Project) -> None:
    scenario = given(opens({"bash": "allow"}, project="shop"), ASKED, project=project)
    scenario.when(rechecks(ASKED)).then_nothing_happens()


def test_a_recheck_of_an_unknown_or_pending_request_does_nothing(scenario: Scenario) -> None:
    scenario.when(rechecks(ASKED)).then_nothing_happens()
    scenario.given(ASKED).when(rechecks(ASKED)).then_nothing_happens()


def test_what_is_reopened_in_a_closed_session_ends_at_once(scenario: Scenario) -> None:
    scenario.given(grants_in_project("grn_1", "bash", "*"), ASKED, closes(), revokes_in_project("grn_1"))
    (reopened, cancelled) = scenario.when(rechecks(ASKED)).events
    assert isinstance(reopened, Reopened)
    assert cancelled == Cancelled(request_id="per_1", cause="session_closed")
    assert (scenario.result("per_1").outcome, scenario.waiting()) == ("cancelled", [])


def test_only_a_winning_reply_grants(scenario: Scenario, project: Project) -> None:
    scenario.given(asks("per_1", "git push", always=("git *",)), replies("per_1", "once"))
    scenario.when(replies("per_1", "always")).then_refused(AlreadyAnsweredError, "ALREADY_ANSWERED", reply="once")
    assert project.state.version == 0


def test_a_repeated_reply_never_revives_a_revoked_grant(scenario: Scenario, project: Project) -> None:
    scenario.given(asks("per_1", "git push", always=("git *",)), replies("per_1", "always"))
    scenario.given(revokes_in_project(GRANT))
    scenario.when(replies("per_1", "always")).then_nothing_happens()
    (replied,) = [one.event for one in scenario.records if isinstance(one.event, Replied)]
    project.take(replied, "bash", ANN, "ses_1", scenario.now_ms)
    scenario.given(asks("per_2", "git push"))
    assert scenario.waiting() == ["per_2"]


def test_the_grant_of_a_reply_has_the_same_ids_however_often_it_is_made() -> None:
    assert derived_grant_id("ses_1", "per_1", 0) == "grn_f5ba5bf93ee4aeb9efef583dc3"
    assert derived_event_id(GRANT) == "evt_70ab3d437d8f749ff29f5d688ff995af"
    assert len({derived_grant_id("s", "r", 0), derived_grant_id("s", "r", 1), derived_grant_id("sr", "", 0)}) == 3


def test_a_project_that_a_newer_version_wrote_to_allows_nothing(scenario: Scenario, project: Project) -> None:
    edit = asks("per_0", "a.py", permission="edit", always=("*",))
    scenario.given(grants_in_project("grn_1", "bash", "*"), edit, ASKED)
    project.record(NewerEvent(schema=2, event_type="suspended"), ANN, T0)
    for command in (asks("per_2", "ls"), rechecks(ASKED), releases(), replies("per_0", "always")):
        scenario.when(command).then_refused(NewerSchemaError, "NEWER_SCHEMA", contains="project `shop`", project="shop")


def test_a_single_answer_needs_no_project(scenario: Scenario, project: Project) -> None:
    scenario.given(asks("per_1", "ls"))
    project.record(NewerEvent(schema=2, event_type="suspended"), ANN, T0)
    scenario.when(replies("per_1", "once")).then(Replied(request_id="per_1", reply="once", outcome="allowed"))


class TestTheProjectsOwnStream:
    def test_a_grant_is_made_once(self, project: Project) -> None:
        command = grants_in_project("grn_1", "bash", "git *", expires_in_ms=ms("1h"))
        assert project.decide(command, T0) == (
            Granted(
                grant_id="grn_1",
                permission="bash",
                scope="project",
                expires_in_ms=ms("1h"),
                detail=GrantedDetail("git *"),
            ),
        )
        assert project.state.grants["grn_1"].expires_ms == T0 + ms("1h")
        assert project.decide(command, T0) == ()

    def test_a_grant_is_revoked_once_and_never_revived(self, project: Project) -> None:
        command = grants_in_project("grn_1", "bash", "git *")
        project.decide(command, T0)
        assert project.decide(revokes_in_project("grn_1"), T0 + 5) == (Revoked(grant_id="grn_1"),)
        assert project.decide(revokes_in_project("grn_1"), T0 + 9) == ()
        assert project.decide(command, T0 + 9) == ()
        assert project.state.grants["grn_1"].revoked_ms == T0 + 5

    def test_a_grant_id_cannot_be_used_for_something_else(self, project: Project) -> None:
        project.decide(grants_in_project("grn_1", "bash", "git *"), T0)
        with pytest.raises(InputError, match="the grant id `grn_1` is taken by another grant"):
            project.decide(grants_in_project("grn_1", "bash", "*"), T0)

    def test_an_unknown_grant_cannot_be_revoked(self, project: Project) -> None:
        with pytest.raises(UnknownGrantError, match="project `shop` has no grant `grn_9`"):
            project.decide(revokes_in_project("grn_9"), T0)

    def test_events_of_a_newer_version_are_kept_and_nothing_is_decided_beside_them(self, project: Project) -> None:
        project.record(NewerEvent(schema=2, event_type="suspended"), ANN, T0)
        assert (project.state.newer, project.state.version) == (True, 1)
        with pytest.raises(NewerSchemaError, match="upgrade this worker"):
            decide_project(project.state, grants_in_project("grn_1", "bash", "*"), T0)

    def test_events_that_do_not_concern_a_project_only_move_the_version(self, project: Project) -> None:
        project.record(Revoked(grant_id="grn_9"), ANN, T0)
        project.record(Cancelled(request_id="per_1", cause="withdrawn"), ANN, T0 + 1)
        assert (project.state.version, project.state.last_ms, dict(project.state.grants)) == (2, T0 + 1, {})
