"""OpenCode's answers, as its own tests and its running program show them, checked on the decider.

Where its editions disagree, or where this ledger chose otherwise, the test says so.
"""

from __future__ import annotations

from typing import Any

from ledger.core.errors import UnknownRequestError
from ledger.core.events import Replied
from tests.support.commands import asks, closes, grants_in_project, opens, replies
from tests.support.scenario import Project, Scenario, Settle, given, later


def in_project(session_id: str, project: Project, **options: Any) -> Scenario:
    return Scenario(session_id, project).given(opens(project=project.state.project_id, **options))


def replied(scenario: Scenario) -> list[tuple[str, str]]:
    events = [one.event for one in scenario.records]
    return [(event.request_id, event.reply) for event in events if isinstance(event, Replied)]


def test_always_leaves_a_matching_request_of_another_session_pending() -> None:
    shop = Project("shop")
    first, other = in_project("ses_a", shop), in_project("ses_b", shop)
    first.given(asks("per_6a", "ls", always=("ls",)))
    other.given(asks("per_6b", "ls"))
    first.given(replies("per_6a", "always"))
    assert first.result("per_6a").outcome == "allowed"
    assert other.waiting() == ["per_6b"]


def test_a_reply_is_an_event_that_names_request_and_reply() -> None:
    scenario = given(opens(), asks("per_7", "ls"))
    scenario.when(replies("per_7", "once")).then(Replied(request_id="per_7", reply="once", outcome="allowed"))


def test_sessions_in_different_folders_see_only_their_own_requests() -> None:
    one, two = Scenario("ses_dir_a"), Scenario("ses_dir_b")
    one.given(opens(), asks("per_dir_a", "ls"))
    two.given(opens(), asks("per_dir_b", "pwd"))
    assert (one.waiting(), two.waiting()) == (["per_dir_a"], ["per_dir_b"])
    one.given(replies("per_dir_a", "reject"))
    assert (one.waiting(), two.waiting()) == ([], ["per_dir_b"])


def test_a_reply_to_an_unknown_id_fails() -> None:
    scenario = given(opens())
    scenario.when(replies("per_unknown", "once")).then_refused(
        UnknownRequestError, "UNKNOWN_REQUEST", request_id="per_unknown"
    )
    assert scenario.waiting() == []


def test_a_reply_to_an_unknown_id_is_not_ignored_as_earlier_editions_did() -> None:
    for dialect in ("opencode", "brutus"):
        given(opens(dialect=dialect)).when(replies("per_unknown", "once")).then_refused(
            UnknownRequestError, "UNKNOWN_REQUEST"
        )


def test_a_deny_behind_a_pattern_that_asks_is_seen_unlike_in_earlier_editions() -> None:
    rules = {"bash": {"echo *": "ask", "rm *": "deny"}}
    scenario = given(opens(rules), asks("per_1", "echo hello", "rm -rf /"))
    assert scenario.result("per_1").outcome == "denied"


def test_once_allows_and_a_second_reply_changes_nothing() -> None:
    # OpenCode forgets what was answered and says 404; a ledger that remembers says yes to the same answer.
    scenario = given(opens(), asks("P1", "echo one", always=("echo *",)))
    assert scenario.waiting() == ["P1"]
    scenario.given(replies("P1", "once"))
    assert scenario.result("P1").outcome == "allowed"
    scenario.when(replies("P1", "once")).then_nothing_happens()


def test_a_reject_without_feedback_stops_the_agents_turn() -> None:
    scenario = given(opens(), asks("P1", "echo two", always=("echo *",)), replies("P1", "reject"))
    result = scenario.result("P1")
    assert (result.outcome, result.agent) == ("rejected", "stop")
    assert result.message == "The user rejected permission to use this specific tool call."


def test_always_releases_in_the_session_and_a_compound_request_needs_every_pattern() -> None:
    shop = Project("shop")
    scenario = in_project("S", shop).given(
        asks("P1", "echo b1", always=("echo *",)),
        asks("P2", "echo b2", always=("echo *",)),
        asks("P3", "ls b3", always=("ls *",)),
        asks("P4", "echo b4", "ls b5", always=("echo *", "ls *")),
        replies("P1", "always"),
    )
    assert (replied(scenario), scenario.waiting()) == ([("P1", "always"), ("P2", "always")], ["P3", "P4"])

    other = in_project("S2", shop).given(asks("P6", "echo other session"))
    assert other.result("P6").outcome == "allowed"

    third = in_project("S3", shop).given(asks("P5", "ls zzz"))
    scenario.given(replies("P3", "always"))
    assert replied(scenario)[2:] == [("P3", "always"), ("P4", "always")]
    assert third.waiting() == ["P5"]


def test_the_same_holds_with_compat_v1() -> None:
    shop = Project("shop")
    scenario = in_project("S", shop, compat="v1").given(
        asks("P1", "echo b1", always=("echo *",)),
        asks("P3", "ls b3", always=("ls *",)),
        asks("P4", "echo b4", "ls b5"),
        replies("P1", "always"),
        replies("P3", "always"),
    )
    assert replied(scenario) == [("P1", "always"), ("P3", "always"), ("P4", "always")]


def test_ending_a_parent_leaves_its_childs_request_pending() -> None:
    parent, child = Scenario("PARENT"), Scenario("CHILD")
    parent.given(opens())
    child.given(opens(), asks("P1", "date -u", parent="PARENT"))
    parent.given(closes())
    child.given(later("60s"), Settle())
    assert child.waiting() == ["P1"]
    assert child.state.pending["P1"].parent == "PARENT"


def test_what_a_project_approved_once_is_allowed_in_every_later_session() -> None:
    shop = Project("shop")
    shop.decide(grants_in_project("grn_1", "bash", "echo *"), now_ms=0)
    scenario = in_project("session_test", shop).given(asks("P1", "echo x"))
    assert scenario.result("P1").outcome == "allowed"


def test_in_brutus_approvals_belong_to_one_session() -> None:
    shop = Project("shop")
    first = in_project("s1", shop, dialect="brutus").given(asks("P1", "ls", always=("ls",)), replies("P1", "always"))
    second = in_project("s2", shop, dialect="brutus").given(asks("P2", "ls"))
    assert (first.result("P1").outcome, second.waiting()) == ("allowed", ["P2"])


def test_a_reply_sent_to_the_wrong_session_is_an_error_and_the_request_waits_on() -> None:
    first = Scenario("s1").given(opens(), asks("P1", "ls"))
    second = Scenario("s2").given(opens())
    second.when(replies("P1", "once")).then_refused(UnknownRequestError, "UNKNOWN_REQUEST", session="s2")
    assert first.waiting() == ["P1"]


def test_each_cascaded_request_gets_an_event_of_its_own() -> None:
    scenario = given(opens(), asks("P1", "ls", always=("ls",)), asks("P2", "ls"), replies("P1", "always"))
    assert replied(scenario) == [("P1", "always"), ("P2", "always")]
