"""Decisions within the reach of a freeze, and after it has ended."""

from __future__ import annotations

from typing import Any, Final

import pytest

from ledger.core.errors import FrozenError
from ledger.core.events import Asked, Cause, Opinion, Replied, Settings
from ledger.core.freezes import FREEZE, Freeze
from ledger.policy import Verdict
from ledger.session.commands import Resume
from ledger.session.decide import decide
from ledger.session.decision import Decision
from ledger.session.freezing import under_freeze
from ledger.session.state import is_held
from tests.support.commands import AGENT, ANN, Rules, asks, grants, opens, replies
from tests.support.scenario import AS_IT_STANDS, AS_OPENED, T0, Scenario, given

RULES: Final[Rules] = {"bash": {"*": "ask", "ls*": "allow", "rm *": "deny"}}
BY_ANN: Final = Freeze(by="ann", at_ms=T0, reason="a leak")


def frozen(scenario: Scenario, command: Any) -> Decision:
    """Return the decision within a freeze, which `SessionFold` makes of the one without it."""
    filled = scenario._filled(command)
    return under_freeze(
        scenario.state, filled, decide(scenario.state, filled, scenario.now_ms), BY_ANN, scenario.now_ms
    )


def after(scenario: Scenario, decision: Decision) -> Scenario:
    return scenario.given(*decision.events)


def resumes() -> Resume:
    return Resume(actor=AGENT, policy=AS_OPENED, project=AS_IT_STANDS)


def opened(**settings: Any) -> Scenario:
    return given(opens(RULES, settings=Settings(**settings)))


def held(*patterns: str) -> Scenario:
    """A session whose requests a freeze held back."""
    scenario = opened()
    for number, pattern in enumerate(patterns or ("ls -l",), 1):
        after(scenario, frozen(scenario, asks(f"per_{number}", pattern)))
    return scenario


def test_what_a_rule_allows_waits_and_says_why() -> None:
    scenario = held("ls -l")
    request = scenario.state.pending["per_1"]
    assert is_held(request)
    assert request.opinions == (
        Opinion(FREEZE, Verdict.ASK, "the ledger was frozen by ann at 2027-01-15T08:00:00.000Z: a leak"),
    )
    assert scenario.result("per_1").outcome is None


def test_what_a_person_must_answer_waits_as_always_and_is_not_held() -> None:
    scenario = held("git push")
    assert not is_held(scenario.state.pending["per_1"])


def test_what_a_rule_denies_is_denied_as_always() -> None:
    assert held("rm x").result("per_1").outcome == "denied"


@pytest.mark.parametrize("pattern", ["ls -l", "git push"])
def test_a_session_can_have_every_ask_of_a_freeze_denied(pattern: str) -> None:
    scenario = opened(when_frozen="deny")
    after(scenario, frozen(scenario, asks("per_1", pattern)))
    result = scenario.result("per_1")
    assert (result.outcome, result.code) == ("denied", "DENIED")
    assert result.message == (
        "Permission denied by a freeze: the ledger was frozen by ann at 2027-01-15T08:00:00.000Z: a leak"
    )


@pytest.mark.parametrize("reply", ["once", "session", "always"])
def test_a_yes_is_refused_with_who_froze_it_when_and_why(reply: Any) -> None:
    scenario = held("git push")
    with pytest.raises(FrozenError) as refused:
        frozen(scenario, replies("per_1", reply))
    error = refused.value
    assert (error.code, error.agent, error.request_id, error.session) == ("FROZEN", "stop", "per_1", "ses_1")
    assert {name: error.data[name] for name in ("by", "at_ms", "reason", "project")} == {
        "by": "ann", "at_ms": T0, "reason": "a leak", "project": None,
    }  # fmt: skip


def test_a_reject_works() -> None:
    scenario = held("git push")
    after(scenario, frozen(scenario, replies("per_1", "reject")))
    assert scenario.result("per_1").outcome == "rejected"


def test_a_grant_is_refused() -> None:
    with pytest.raises(FrozenError):
        frozen(opened(), grants("grn_1", "bash", "git *"))


def test_asking_again_writes_nothing() -> None:
    scenario = held("ls -l")
    assert frozen(scenario, asks("per_1", "ls -l")).events == ()


def test_after_the_freeze_what_rules_allow_is_allowed_and_names_the_end_of_the_freeze() -> None:
    scenario = held("ls -l", "git push")
    events = scenario.when(resumes()).events
    assert events == (Replied(request_id="per_1", reply="once", outcome="allowed", cause=Cause(kind="unfrozen")),)
    assert scenario.result("per_1").outcome == "allowed"
    assert scenario.waiting() == ["per_2"]


def test_after_the_freeze_the_rules_of_now_decide() -> None:
    scenario = held("ls -l", "ls -a")
    scenario.given(opens({"bash": {"*": "allow", "ls -l": "deny", "ls -a": "ask"}}))
    (replied,) = scenario.when(resumes()).events
    assert isinstance(replied, Replied)
    assert (replied.request_id, replied.outcome) == ("per_1", "denied")
    assert scenario.waiting() == ["per_2"]
    assert scenario.result("per_1").outcome == "denied"


def test_a_plugin_that_asked_for_a_person_still_has_its_person_after_the_freeze() -> None:
    scenario = opened()
    doubt = Opinion("reviewer", Verdict.ASK, "looks odd")
    decision = frozen(scenario, asks("per_1", "ls -l", opinions=(doubt,)))
    (asked,) = decision.events
    assert isinstance(asked, Asked)
    after(scenario, decision)
    assert scenario.when(resumes()).events == ()
    assert scenario.waiting() == ["per_1"]


def test_a_second_freeze_lets_nothing_go() -> None:
    scenario = held("ls -l")
    assert frozen(scenario, resumes()).events == ()


def test_a_person_may_answer_a_held_request_after_the_freeze() -> None:
    scenario = held("ls -l").given(replies("per_1", "once", by=ANN))
    result = scenario.result("per_1")
    assert (result.outcome, result.by) == ("allowed", ANN)


def test_what_goes_on_after_the_freeze_bears_no_trace_of_it_that_a_later_judgement_could_find() -> None:
    scenario = held("ls -l").given(resumes())
    assert scenario.state.settled["per_1"].request.opinions == ()
