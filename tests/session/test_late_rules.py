"""A deny that was added while a request waited stops a later yes; an edited input is judged like an ask."""

from __future__ import annotations

from typing import Any

import pytest

from ledger.core.errors import AlreadyAnsweredError, EditDeniedError, InputError
from ledger.core.events import Cause, Granted, Replied, Settings
from ledger.policy import Verdict
from tests.support.commands import (
    ANN,
    BOB,
    Rules,
    asks,
    grants_in_project,
    opens,
    releases,
    replies,
)
from tests.support.scenario import Project, Scenario, given

DENY: Rules = {"bash": {"*": "ask", "rm *": "deny"}}
LS = {"command": "ls -l"}


def waiting(*more: Any, **options: Any) -> Scenario:
    """A session in which `rm x` waited when a deny of it was added."""
    return given(
        opens({"bash": "ask"}, project="shop", **options),
        asks("per_1", "rm x", always=("git *",)),
        *more,
        opens(DENY, project="shop", **options),
        project=Project(),
    )


@pytest.mark.parametrize("reply", ["once", "session", "always"])
def test_a_yes_to_what_is_denied_by_now_ends_the_request_as_denied(reply: Any) -> None:
    scenario = waiting()
    happened = scenario.when(replies("per_1", reply))
    replied = happened.events[0]
    assert isinstance(replied, Replied)
    assert (replied.outcome, replied.reply) == ("denied", reply)
    result = scenario.result("per_1")
    assert (result.outcome, result.reply, result.by, result.code) == ("denied", reply, ANN, "DENIED")
    assert result.evaluation is not None
    assert [rule.text for rule in result.evaluation.rules] == ["bash rm * deny"]
    assert result.message is not None
    assert result.message.startswith("The user has specified a rule which prevents you")
    error = result.error()
    assert error is not None
    assert [reason["text"] for reason in error.reasons] == ["bash rm * deny"]


def test_a_no_stays_a_no() -> None:
    scenario = waiting().given(replies("per_1", "reject", message="use trash"))
    assert scenario.result("per_1").outcome == "corrected"


def test_an_ask_of_now_is_answered_by_who_answers() -> None:
    scenario = given(opens({"bash": "allow"}), opens({"bash": "ask"}), asks("per_1", "rm x"), opens({"*": "ask"}))
    assert scenario.given(replies("per_1", "once")).result("per_1").outcome == "allowed"


def test_what_an_overruled_answer_grants_stands_and_releases() -> None:
    scenario = waiting(asks("per_2", "git push"))
    events = scenario.when(replies("per_1", "always")).events
    assert [type(event) for event in events] == [Replied, Replied]
    assert scenario.result("per_2").outcome == "allowed"
    assert scenario.state.settled["per_1"].granted_to_project
    assert scenario.project is not None
    assert [grant.pattern for grant in scenario.project.state.grants.values()] == ["git *"]


def test_a_session_grant_of_an_overruled_answer_stands() -> None:
    events = waiting().when(replies("per_1", "session")).events
    assert [type(event) for event in events] == [Replied, Granted]


def test_what_an_always_would_release_is_denied_where_a_rule_denies_it_by_now() -> None:
    scenario = given(
        opens({"edit": "ask"}, project="shop"),
        asks("per_1", "src/a", always=("*",), permission="edit"),
        asks("per_2", "keys/b", permission="edit"),
        asks("per_3", "src/c", permission="edit"),
        opens({"edit": {"*": "ask", "keys/*": "deny"}}, project="shop"),
        project=Project(),
    )
    events = scenario.when(replies("per_1", "always")).events
    assert [(one.request_id, one.outcome) for one in events if isinstance(one, Replied)] == [
        ("per_1", "allowed"),
        ("per_2", "denied"),
        ("per_3", "allowed"),
    ]
    assert scenario.state.settled["per_2"].cause == Cause(kind="cascade", request_id="per_1")
    assert scenario.result("per_2").code == "DENIED"


def test_what_a_grant_of_the_project_would_release_is_denied_where_a_rule_denies_it_by_now() -> None:
    scenario = given(
        opens({"edit": "ask"}, project="shop"),
        asks("per_1", "keys/b", permission="edit"),
        asks("per_2", "src/a", permission="edit"),
        opens({"edit": {"*": "ask", "keys/*": "deny"}}, project="shop"),
        grants_in_project("grn_1", "edit", "*"),
        project=Project(),
    )
    scenario.given(releases())
    assert (scenario.result("per_1").outcome, scenario.result("per_2").outcome) == ("denied", "allowed")


def test_the_same_overruled_answer_again_says_nothing_new_and_another_is_told_what_stands() -> None:
    scenario = waiting().given(replies("per_1", "once"))
    scenario.when(replies("per_1", "once")).then_nothing_happens()
    scenario.when(replies("per_1", "reject", by=BOB)).then_refused(
        AlreadyAnsweredError,
        "ALREADY_ANSWERED",
        contains="denied by the current rules, although ann answered once",
        outcome="denied",
    )


def test_in_profile_faithful_a_request_is_judged_once() -> None:
    scenario = waiting(profile="faithful").given(replies("per_1", "once"))
    assert scenario.result("per_1").outcome == "allowed"


def test_a_session_can_say_that_late_denies_are_ignored() -> None:
    scenario = waiting(settings=Settings(late_denies="ignore")).given(replies("per_1", "once"))
    assert scenario.result("per_1").outcome == "allowed"


# --- an edited input ------------------------------------------------------------------------------------------------


def asked_about_a_tool(rules: Rules) -> Scenario:
    return given(opens(rules), asks("per_1", "ls", tool_name="bash", tool_input={"command": "ls"}))


def test_an_edit_that_a_rule_denies_is_refused_with_the_rule_and_the_request_waits_on() -> None:
    scenario = asked_about_a_tool(DENY)
    scenario.when(replies("per_1", "once", edited={"command": "rm -rf x"})).then_refused(
        EditDeniedError, "EDIT_DENIED", contains="denied by `bash rm * deny`; request `per_1` is still pending"
    )
    assert scenario.waiting() == ["per_1"]


def test_an_edit_is_judged_whole_however_deep_the_denied_command_stands() -> None:
    scenario = asked_about_a_tool(DENY)
    edited = {"command": "env sh -c 'ls && rm x'"}
    scenario.when(replies("per_1", "once", edited=edited)).then_refused(EditDeniedError, "EDIT_DENIED")


@pytest.mark.parametrize(
    ("rules", "verdict"), [({"bash": "ask"}, Verdict.ASK), ({"bash": {"*": "ask", "ls -l": "allow"}}, Verdict.ALLOW)]
)
def test_the_evaluation_of_an_edited_call_is_recorded(rules: Rules, verdict: Verdict) -> None:
    (replied,) = asked_about_a_tool(rules).when(replies("per_1", "once", edited=LS)).events
    assert isinstance(replied, Replied)
    assert replied.detail is not None
    assert replied.detail.evaluation is not None
    assert (replied.outcome, replied.detail.input, replied.detail.evaluation.verdict) == ("allowed", LS, verdict)


def test_an_edit_of_what_is_denied_by_now_to_what_is_not_runs() -> None:
    scenario = given(
        opens({"bash": "ask"}), asks("per_1", "rm x", tool_name="bash", tool_input={"command": "rm x"}), opens(DENY)
    )
    scenario.given(replies("per_1", "once", edited=LS))
    assert (scenario.result("per_1").outcome, scenario.result("per_1").updated_input) == ("allowed", LS)


def test_an_edit_of_a_request_that_names_no_tool_is_judged_by_its_permission() -> None:
    scenario = given(opens(DENY), asks("per_1", "ls", tool_input={"command": "ls"}))
    scenario.when(replies("per_1", "once", edited={"command": "rm x"})).then_refused(EditDeniedError, "EDIT_DENIED")


def test_an_edit_is_judged_in_profile_faithful_too() -> None:
    scenario = given(
        opens(DENY, profile="faithful"), asks("per_1", "ls", tool_name="bash", tool_input={"command": "ls"})
    )
    scenario.when(replies("per_1", "once", edited={"command": "rm x"})).then_refused(EditDeniedError, "EDIT_DENIED")


def test_an_edit_goes_with_no_other_answer() -> None:
    for reply in ("always", "reject"):
        asked_about_a_tool(DENY).when(replies("per_1", reply, edited=LS)).then_refused(
            InputError, "INPUT", contains=f"not with `{reply}`"
        )
