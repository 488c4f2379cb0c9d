from __future__ import annotations

from ledger.core.errors import InputError, SessionClosedError, UnknownGrantError, UnknownSessionError
from ledger.core.events import Granted, GrantedDetail, ReasonDetail, Revoked
from ledger.core.grants import StandingGrant, in_force
from tests.support.commands import ANN, asks, closes, grants, opens, replies, revokes
from tests.support.scenario import T0, Scenario, given, later, ms

GIT = grants("grn_1", "bash", "git *")


def test_a_grant_is_recorded_with_who_gave_it_and_when_it_ends() -> None:
    scenario = (
        given(opens())
        .when(grants("grn_1", "bash", "git *", expires_in_ms=ms("30d")))
        .then(
            Granted(
                grant_id="grn_1",
                permission="bash",
                scope="session",
                expires_in_ms=ms("30d"),
                session="ses_1",
                detail=GrantedDetail("git *"),
            )
        )
    )
    assert scenario.state.grants["grn_1"] == StandingGrant(
        grant_id="grn_1",
        permission="bash",
        pattern="git *",
        scope="session",
        by=ANN,
        at_ms=T0,
        version=2,
        expires_ms=T0 + ms("30d"),
        session="ses_1",
    )


def test_a_grant_that_came_from_a_request_names_it() -> None:
    scenario = given(opens(), asks("per_1", "ls", always=("ls *",)), replies("per_1", "session"))
    (grant,) = scenario.state.grants.values()
    assert (grant.request_id, grant.session, grant.by, grant.pattern) == ("per_1", "ses_1", ANN, "ls *")


def test_a_grant_may_cover_a_whole_tool() -> None:
    scenario = given(opens(), grants("grn_1", "edit", "*"), asks("per_1", "src/a.py", permission="edit"))
    assert scenario.result("per_1").outcome == "allowed"


def test_a_grant_allows_in_its_last_millisecond_and_not_at_its_end() -> None:
    scenario = given(opens(), grants("grn_1", "bash", "*", expires_in_ms=ms("1h")), later("1h"))
    scenario.now_ms -= 1
    scenario.given(asks("per_1", "ls"))
    scenario.now_ms += 1
    scenario.given(asks("per_2", "ls"))
    assert (scenario.result("per_1").outcome, scenario.waiting()) == ("allowed", ["per_2"])


def test_an_allow_by_an_expiring_grant_must_be_written_before_it_ends() -> None:
    scenario = given(opens(), grants("grn_1", "bash", "*", expires_in_ms=ms("1h")))
    assert scenario.decision(asks("per_1", "ls")).not_after_ms == T0 + ms("1h") - 1


def test_of_several_grants_that_are_needed_the_first_to_end_counts() -> None:
    scenario = given(
        opens(),
        grants("grn_1", "bash", "ls *", expires_in_ms=ms("2h")),
        grants("grn_2", "bash", "git *", expires_in_ms=ms("1h")),
        grants("grn_3", "bash", "npm *", expires_in_ms=ms("1m")),
    )
    assert scenario.decision(asks("per_1", "ls", "git log")).not_after_ms == T0 + ms("1h") - 1


def test_a_revoked_grant_allows_nothing_that_is_asked_afterwards() -> None:
    scenario = (
        given(opens(), GIT, asks("per_1", "git log"))
        .when(revokes("grn_1", "too wide"))
        .then(Revoked(grant_id="grn_1", detail=ReasonDetail("too wide")))
    )
    scenario.given(asks("per_2", "git log"))
    assert scenario.result("per_1").outcome == "allowed"
    assert scenario.waiting() == ["per_2"]


def test_revoking_again_changes_nothing() -> None:
    scenario = given(opens(), GIT, revokes("grn_1"), later("1h")).when(revokes("grn_1")).then_nothing_happens()
    assert scenario.state.grants["grn_1"].revoked_ms == T0


def test_revoking_an_unknown_grant_is_an_error() -> None:
    given(opens()).when(revokes("grn_9")).then_refused(
        UnknownGrantError, "UNKNOWN_GRANT", contains="session `ses_1` has no grant `grn_9`", grant_id="grn_9"
    )


def test_granting_again_with_the_same_id_changes_nothing() -> None:
    given(opens(), GIT).when(GIT).then_nothing_happens()


def test_a_repeated_id_never_revives_a_revoked_grant() -> None:
    scenario = given(opens(), GIT, revokes("grn_1")).when(GIT).then_nothing_happens()
    scenario.given(asks("per_1", "git log"))
    assert scenario.waiting() == ["per_1"]


def test_an_id_repeated_in_the_log_itself_never_revives_a_revoked_grant_either() -> None:
    again = Granted(grant_id="grn_1", permission="bash", scope="session", detail=GrantedDetail("*"))
    scenario = given(opens(), GIT, revokes("grn_1"), again, asks("per_1", "git log"))
    assert list(in_force(scenario.state.grants, scenario.now_ms)) == []
    assert scenario.waiting() == ["per_1"]


def test_a_grant_id_cannot_be_used_for_something_else() -> None:
    given(opens(), GIT).when(grants("grn_1", "bash", "*")).then_refused(
        InputError, "INPUT", contains="the grant id `grn_1` is taken by another grant"
    )


def test_grants_in_force_are_listed_in_the_order_in_which_they_were_made() -> None:
    scenario = given(
        opens(),
        grants("grn_c", "bash", "a"),
        grants("grn_b", "bash", "b", expires_in_ms=1),
        grants("grn_a", "bash", "c"),
        later("1s"),
    )
    assert [one.grant_id for one in in_force(scenario.state.grants, scenario.now_ms)] == ["grn_c", "grn_a"]


def test_a_closed_session_takes_no_grant_but_a_revocation() -> None:
    scenario = given(opens(), GIT, closes())
    scenario.when(grants("grn_2", "bash", "*")).then_refused(SessionClosedError, "SESSION_CLOSED")
    scenario.when(revokes("grn_1")).then(Revoked(grant_id="grn_1"))


def test_a_session_that_was_never_opened_takes_no_grant() -> None:
    Scenario().when(GIT).then_refused(UnknownSessionError, "UNKNOWN_SESSION")
