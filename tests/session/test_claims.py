"""Claims: the right of one runner to run an allowed call, once."""

from __future__ import annotations

import pytest

from ledger.core.commitments import keyed
from ledger.core.errors import (
    AlreadyClaimedError,
    InputError,
    SessionClosedError,
    UnknownRequestError,
)
from ledger.core.events import (
    Actor,
    Asked,
    Cancelled,
    Claimed,
    ClaimReleased,
    EndUnknown,
    Expired,
    ReasonDetail,
    Reopened,
    Replied,
    SessionClosed,
    Settings,
    ToolFinished,
    ToolFinishedDetail,
)
from ledger.core.questions import Runner, claim_id_of
from ledger.policy import Verdict, digest
from ledger.session.state import claim_due_ms, input_digest, next_due_ms
from tests.support.commands import (
    AGENT,
    asks,
    claims,
    closes,
    ends_claims,
    finishes_tool,
    grants,
    grants_in_project,
    opens,
    rechecks,
    releases_claim,
    replies,
    revokes_in_project,
    source,
)
from tests.support.salts import SALT
from tests.support.scenario import T0, Project, Scenario, Settle, given, later, ms

HOOK = Runner("claude", "call_1")
OTHER = Runner("worker-2", "call_1")
ASKED = asks("per_1", "git push")
EDIT = asks("per_1", permission="bash", tool_name="bash", tool_input={"command": "git push"})
ALLOWING = {"bash": "allow"}


def claimed(runner: Runner = HOOK, **more: object) -> Claimed:
    fields: dict[str, object] = {"policy_digest": digest(source()), **more}
    return Claimed(request_id="per_1", claim_id=claim_id_of(runner), runner=runner.name, **fields)  # type: ignore[arg-type]


def allowed() -> Scenario:
    return given(opens(), ASKED, replies("per_1", "once"))


def holding(runner: Runner = HOOK) -> Scenario:
    return allowed().given(claims(ASKED, runner))


def test_a_claim_id_is_the_hash_of_runner_and_call() -> None:
    assert claim_id_of(HOOK) == "clm_e667f7febb82e6f879e8fa2def"
    assert len({claim_id_of(one) for one in (HOOK, OTHER, Runner("claude", "call_2"), Runner("claudecall", "_1"))}) == 4


class TestOneWinner:
    def test_an_allowed_call_is_claimed(self) -> None:
        allowed().when(claims(ASKED, HOOK)).then(claimed())

    def test_the_same_runner_claims_again_and_writes_nothing(self) -> None:
        holding().when(claims(ASKED, HOOK)).then_nothing_happens()

    def test_another_runner_is_told_who_was_first_and_when(self) -> None:
        holding().given(later("5s")).when(claims(ASKED, OTHER)).then_refused(
            AlreadyClaimedError,
            "ALREADY_CLAIMED",
            contains="was claimed by `claude` at 2027-01-15T08:00:00.000Z",
            by="claude",
            runner="claude",
            at_ms=T0,
        )

    def test_a_refusal_tells_the_agent_to_stop(self) -> None:
        happened = holding().when(claims(ASKED, OTHER))
        assert happened.refusal is not None
        assert happened.refusal.agent == "stop"

    def test_a_call_that_has_run_is_not_claimed_again_not_even_by_its_runner(self) -> None:
        scenario = holding().given(finishes_tool("per_1", claim_id=claim_id_of(HOOK)))
        for runner in (HOOK, OTHER):
            scenario.when(claims(ASKED, runner)).then_refused(
                AlreadyClaimedError, "ALREADY_CLAIMED", contains="has run already by `claude`"
            )

    def test_a_call_that_ran_without_a_claim_is_not_claimed(self) -> None:
        allowed().given(finishes_tool("per_1")).when(claims(ASKED, HOOK)).then_refused(
            AlreadyClaimedError, "ALREADY_CLAIMED", contains="has run already"
        )

    def test_an_unknown_request_is_not_claimed(self) -> None:
        given(opens()).when(claims(ASKED, HOOK)).then_refused(UnknownRequestError, "UNKNOWN_REQUEST")

    @pytest.mark.parametrize("reply", ["reject", None])
    def test_what_is_not_allowed_is_not_claimed(self, reply: str | None) -> None:
        scenario = given(opens(), ASKED)
        if reply is not None:
            scenario.given(replies("per_1", "reject"))
        scenario.when(claims(ASKED, HOOK)).then_nothing_happens()

    def test_nothing_is_claimed_in_a_closed_session(self) -> None:
        allowed().given(closes()).when(claims(ASKED, HOOK)).then_refused(SessionClosedError, "SESSION_CLOSED")

    def test_an_ask_without_a_claim_is_refused_once_somebody_has_claimed_the_call(self) -> None:
        allowed().when(ASKED).then_nothing_happens()
        scenario = holding()
        scenario.when(ASKED).then_refused(
            AlreadyClaimedError, "ALREADY_CLAIMED", contains="only its runner runs it", runner="claude"
        )
        scenario.given(releases_claim("per_1")).when(ASKED).then_nothing_happens()

    def test_the_claim_names_the_digest_of_the_input_that_may_run(self) -> None:
        edited = {"command": "git push --dry-run"}
        scenario = given(opens(), EDIT, replies("per_1", "once", edited=edited))
        scenario.when(claims(EDIT, HOOK)).then(claimed(input_digest=keyed(input_digest(edited), SALT)))
        scenario = given(opens(), EDIT, replies("per_1", "once"))
        scenario.when(claims(EDIT, HOOK)).then(claimed(input_digest=keyed(input_digest({"command": "git push"}), SALT)))


class TestAskAndClaimInOneAppend:
    def test_what_a_rule_allows_is_claimed_with_the_ask(self) -> None:
        asked, claim = given(opens(ALLOWING)).when(asks("per_1", "ls", claim=HOOK)).events
        assert isinstance(asked, Asked)
        assert claim == claimed(policy_digest=digest(source(ALLOWING)))

    def test_what_a_grant_of_the_session_allows_too(self) -> None:
        scenario = given(opens(), grants("grn_1", "bash", "*")).given(asks("per_1", "ls", claim=HOOK))
        assert scenario.state.settled["per_1"].claim is not None

    def test_what_must_be_answered_is_not_claimed(self) -> None:
        (asked,) = given(opens()).when(asks("per_1", "ls", claim=HOOK)).events
        assert isinstance(asked, Asked)

    def test_what_a_rule_denies_is_not_claimed(self) -> None:
        (asked,) = given(opens({"bash": "deny"})).when(asks("per_1", "ls", claim=HOOK)).events
        assert isinstance(asked, Asked)

    def test_what_a_grant_of_the_project_allows_is_claimed_after_a_read_of_the_project(self) -> None:
        scenario = given(opens(project="shop"), grants_in_project("grn_1", "bash", "*"), project=Project())
        (asked,) = scenario.when(asks("per_1", "git push", claim=HOOK)).events
        assert isinstance(asked, Asked)
        scenario.when(claims(ASKED, HOOK)).then(claimed(project_version=1))

    def test_an_ask_again_by_the_same_runner_has_the_claim_and_writes_nothing(self) -> None:
        ask = asks("per_1", "ls", claim=HOOK)
        given(opens(ALLOWING), ask).when(ask).then_nothing_happens()

    def test_an_ask_by_another_runner_is_refused(self) -> None:
        given(opens(ALLOWING), asks("per_1", "ls", claim=HOOK)).when(asks("per_1", "ls", claim=OTHER)).then_refused(
            AlreadyClaimedError, "ALREADY_CLAIMED"
        )

    def test_an_ask_claims_what_a_person_has_allowed_since(self) -> None:
        allowed().when(asks("per_1", "git push", claim=HOOK)).then(claimed())


class TestTheEnd:
    def test_the_end_of_a_run_names_its_claim(self) -> None:
        scenario = holding()
        scenario.when(finishes_tool("per_1", claim_id=claim_id_of(HOOK))).then(
            ToolFinished(
                request_id="per_1", claim_id=claim_id_of(HOOK), detail=ToolFinishedDetail(output="done", salt=SALT)
            )
        )
        held = scenario.state.settled["per_1"].claim
        assert held is not None
        assert (held.status, len(scenario.state.open_claims)) == ("finished", 0)

    def test_the_end_is_recorded_once(self) -> None:
        ended = finishes_tool("per_1", claim_id=claim_id_of(HOOK))
        holding().given(ended).when(ended).then_nothing_happens()

    def test_a_note_of_the_run_without_a_claims_id_ends_the_open_claim(self) -> None:
        (noted,) = holding().when(finishes_tool("per_1")).events
        assert isinstance(noted, ToolFinished)
        assert noted.claim_id == claim_id_of(HOOK)

    def test_nobody_ends_anothers_claim(self) -> None:
        holding().when(finishes_tool("per_1", claim_id=claim_id_of(OTHER))).then_refused(
            AlreadyClaimedError, "ALREADY_CLAIMED", runner="claude"
        )

    def test_a_run_whose_claim_a_failover_lost_is_recorded_once_and_permits_no_other(self) -> None:
        ended = finishes_tool("per_1", claim_id=claim_id_of(OTHER))
        scenario = allowed()
        (finished,) = scenario.when(ended).events
        assert isinstance(finished, ToolFinished)
        scenario.when(ended).then_nothing_happens()
        scenario.when(claims(ASKED, HOOK)).then_refused(AlreadyClaimedError, "ALREADY_CLAIMED", contains="has run")

    def test_a_run_whose_allow_a_failover_lost_permits_no_other_once_it_is_allowed_again(self) -> None:
        scenario = given(opens(), ASKED, finishes_tool("per_1", claim_id=claim_id_of(HOOK)))
        scenario.given(replies("per_1", "once"))
        for runner in (HOOK, OTHER):
            scenario.when(claims(ASKED, runner)).then_refused(
                AlreadyClaimedError, "ALREADY_CLAIMED", contains="has run"
            )

    def test_a_run_whose_claim_was_given_back_permits_no_other_after_a_reopening(self) -> None:
        rests = given(opens(project="shop"), grants_in_project("grn_p", "bash", "*"), project=Project())
        rests.given(ASKED, claims(ASKED, HOOK), releases_claim("per_1"))
        rests.given(finishes_tool("per_1", claim_id=claim_id_of(HOOK)), revokes_in_project("grn_p"), rechecks(ASKED))
        assert rests.waiting() == ["per_1"]
        rests.given(replies("per_1", "once", round_=2))
        rests.when(claims(ASKED, OTHER)).then_refused(AlreadyClaimedError, "ALREADY_CLAIMED", contains="has run")

    def test_a_request_that_never_was_has_no_end(self) -> None:
        given(opens()).when(finishes_tool("per_9", claim_id=claim_id_of(HOOK))).then_refused(
            UnknownRequestError, "UNKNOWN_REQUEST"
        )

    def test_a_claim_without_an_end_ends_unknown_after_its_timeout(self) -> None:
        scenario = holding().given(later("59m"))
        scenario.when(Settle()).then_nothing_happens()
        assert next_due_ms(scenario.state) == T0 + ms("1h") == claim_due_ms(scenario.state)
        scenario.when(Settle(), now=T0 + ms("1h")).then(
            EndUnknown(request_id="per_1", claim_id=claim_id_of(HOOK), cause="claim_timeout")
        )
        assert next_due_ms(scenario.state) is None

    def test_a_timeout_and_a_deadline_that_pass_together_are_both_settled(self) -> None:
        scenario = holding().given(asks("per_2", "ls"), later("8d"))
        happened = scenario.when(Settle())
        assert [type(one) for one in happened.events] == [Expired, EndUnknown]
        assert next_due_ms(scenario.state) is None

    def test_the_timeout_is_the_sessions_setting(self) -> None:
        scenario = given(opens(settings=Settings(claim_timeout_ms=ms("5m"))), ASKED, replies("per_1", "once"))
        scenario.given(claims(ASKED, HOOK))
        assert next_due_ms(scenario.state) == T0 + ms("5m")

    def test_an_unknown_end_permits_no_second_run(self) -> None:
        scenario = holding().given(later("2h"))
        for runner in (HOOK, OTHER):
            scenario.when(claims(ASKED, runner)).then_refused(
                AlreadyClaimedError, "ALREADY_CLAIMED", contains="may have run"
            )

    def test_every_command_settles_a_timeout_before_it_is_decided(self) -> None:
        holding().given(later("1h")).when(asks("per_2", "ls")).then_settled_first(
            EndUnknown(request_id="per_1", claim_id=claim_id_of(HOOK), cause="claim_timeout")
        )

    def test_several_timeouts_end_in_order_of_claiming(self) -> None:
        scenario = given(opens(ALLOWING))
        for number in (1, 2, 3):
            scenario.given(asks(f"per_{number}", "ls", claim=Runner("r", f"call_{number}")), later("1m"))
        scenario.given(finishes_tool("per_1"))
        assert next_due_ms(scenario.state) == T0 + ms("61m")
        happened = scenario.when(Settle(), now=T0 + ms("62m"))
        assert [one.request_id for one in happened.events if isinstance(one, EndUnknown)] == ["per_2", "per_3"]

    def test_closing_a_session_ends_its_open_claims(self) -> None:
        holding().when(closes()).then(
            EndUnknown(request_id="per_1", claim_id=claim_id_of(HOOK), cause="session_closed"), SessionClosed()
        )

    def test_an_agent_that_ends_ends_its_claims(self) -> None:
        scenario = given(opens(ALLOWING), asks("per_1", "ls", claim=HOOK), asks("per_2", "ls", claim=OTHER))
        scenario.when(ends_claims("claude")).then(
            EndUnknown(request_id="per_1", claim_id=claim_id_of(HOOK), cause="agent_ended")
        )
        scenario.when(ends_claims()).then(
            EndUnknown(request_id="per_2", claim_id=claim_id_of(OTHER), cause="agent_ended")
        )
        scenario.when(ends_claims()).then_nothing_happens()

    def test_an_end_that_is_told_late_is_recorded_and_permits_no_second_run(self) -> None:
        scenario = holding().given(later("2h"), Settle())
        (finished,) = scenario.when(finishes_tool("per_1", claim_id=claim_id_of(HOOK))).events
        assert isinstance(finished, ToolFinished)
        scenario.when(claims(ASKED, OTHER)).then_refused(AlreadyClaimedError, "ALREADY_CLAIMED", contains="has run")

    def test_an_end_may_be_told_after_the_session_was_closed(self) -> None:
        scenario = holding().given(closes())
        (finished,) = scenario.when(finishes_tool("per_1", claim_id=claim_id_of(HOOK))).events
        assert isinstance(finished, ToolFinished)


class TestRelease:
    def test_a_person_releases_a_claim_so_that_another_runner_may_run_it(self) -> None:
        scenario = holding()
        scenario.when(releases_claim("per_1", reason="its machine burned down")).then(
            ClaimReleased(
                request_id="per_1", claim_id=claim_id_of(HOOK), detail=ReasonDetail("its machine burned down")
            )
        )
        assert next_due_ms(scenario.state) is None
        scenario.when(claims(ASKED, OTHER)).then(claimed(OTHER))

    def test_a_release_again_changes_nothing(self) -> None:
        holding().given(releases_claim("per_1")).when(releases_claim("per_1")).then_nothing_happens()
        allowed().when(releases_claim("per_1")).then_nothing_happens()

    def test_the_asker_releases_a_claim_and_another_agent_does_not(self) -> None:
        (released,) = holding().when(releases_claim("per_1", by=AGENT)).events
        assert isinstance(released, ClaimReleased)
        holding().when(releases_claim("per_1", by=Actor("agent", "codex"))).then_refused(
            InputError, "INPUT", contains="agent `codex` did not ask"
        )

    def test_a_call_that_has_or_may_have_run_is_not_released(self) -> None:
        ran = holding().given(finishes_tool("per_1"))
        ran.when(releases_claim("per_1")).then_refused(AlreadyClaimedError, "ALREADY_CLAIMED", contains="has run")
        unknown = holding().given(later("2h"))
        unknown.when(releases_claim("per_1")).then_refused(
            AlreadyClaimedError, "ALREADY_CLAIMED", contains="may have run"
        )

    def test_an_unknown_request_has_no_claim_to_release(self) -> None:
        given(opens()).when(releases_claim("per_9")).then_refused(UnknownRequestError, "UNKNOWN_REQUEST")

    def test_a_run_under_a_released_claim_is_recorded_and_ends_the_matter(self) -> None:
        scenario = holding().given(releases_claim("per_1"))
        ended = finishes_tool("per_1", claim_id=claim_id_of(HOOK))
        (finished,) = scenario.when(ended).events
        assert isinstance(finished, ToolFinished)
        scenario.when(ended).then_nothing_happens()
        scenario.when(claims(ASKED, OTHER)).then_refused(AlreadyClaimedError, "ALREADY_CLAIMED", contains="has run")

    def test_a_run_under_a_released_claim_leaves_the_next_runners_claim_open(self) -> None:
        scenario = holding().given(releases_claim("per_1"), claims(ASKED, OTHER))
        scenario.given(finishes_tool("per_1", claim_id=claim_id_of(HOOK)))
        held = scenario.state.settled["per_1"].claim
        assert held is not None
        assert (held.runner, held.status) == ("worker-2", "open")
        (finished,) = scenario.when(finishes_tool("per_1", claim_id=claim_id_of(OTHER))).events
        assert isinstance(finished, ToolFinished)


def test_what_is_claimed_is_not_reopened_when_the_projects_grants_change() -> None:
    scenario = given(opens(project="shop"), grants_in_project("grn_1", "bash", "*"), project=Project())
    scenario.given(ASKED, claims(ASKED, HOOK), revokes_in_project("grn_1"))
    scenario.when(rechecks(ASKED)).then_nothing_happens()


def test_a_claim_by_a_projects_grant_that_is_revoked_is_not_told_again() -> None:
    scenario = given(opens(project="shop"), grants_in_project("grn_1", "bash", "*"), project=Project())
    scenario.given(ASKED, claims(ASKED, HOOK), revokes_in_project("grn_1"))
    scenario.when(claims(ASKED, HOOK)).then_refused(
        AlreadyClaimedError, "ALREADY_CLAIMED", contains="no longer in force: it may have run"
    )


def test_a_reopened_request_of_a_closed_session_ends_at_once() -> None:
    scenario = given(opens(project="shop"), grants_in_project("grn_1", "bash", "*"), ASKED, closes(), project=Project())
    scenario.given(revokes_in_project("grn_1"))
    reopened, cancelled = scenario.when(rechecks(ASKED)).events
    assert isinstance(reopened, Reopened)
    assert isinstance(cancelled, Cancelled)


def test_a_claimed_call_says_that_it_may_have_run() -> None:
    said = holding().result("per_1").as_json()
    assert said["claim"] == {
        "claim_id": claim_id_of(HOOK),
        "runner": "claude",
        "by": "claude",
        "at": "2027-01-15T08:00:00.000Z",
        "status": "open",
        "may_have_run": True,
    }
    assert "claim" not in allowed().result("per_1").as_json()


def test_an_answer_after_the_claim_changes_nothing() -> None:
    scenario = holding()
    scenario.when(replies("per_1", "once")).then_nothing_happens()
    (replied,) = [one.event for one in scenario.records if isinstance(one.event, Replied)]
    assert replied.outcome == "allowed"
    assert scenario.result("per_1").evaluation is not None
    assert Verdict.ASK is scenario.result("per_1").evaluation.verdict  # type: ignore[union-attr]
