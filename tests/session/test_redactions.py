"""The state of a session whose log lost content: the same for every reader, and never looser."""

from __future__ import annotations

import pytest

from ledger.core.errors import RedactedError
from ledger.core.events import ReasonDetail, Redacted, Replied
from ledger.core.policy import ReplyKind
from ledger.core.questions import Runner
from ledger.log.tail import read_entry
from ledger.session.commands import Command
from ledger.session.evolve import evolve
from ledger.session.state import SessionState
from ledger.stores.port import START, Entry
from tests.support.commands import (
    asks,
    cancels,
    claims,
    closes,
    finishes_tool,
    grants,
    grants_in_project,
    opens,
    rechecks,
    releases,
    replies,
    revokes_in_project,
)
from tests.support.scenario import AS_IT_STANDS, Project, Scenario, given

WHY = ReasonDetail("a password")
ASKED = asks("per_1", "curl -u ann:secret", always=("curl *",), tool_name="bash", tool_input={"command": "secret"})


def redacted(scenario: Scenario, *versions: int) -> Scenario:
    return scenario.given(Redacted(versions=versions, detail=WHY))


def folded_without(scenario: Scenario, *versions: int) -> SessionState:
    """Fold the log of a scenario as a new process does, after the content of these versions was taken out."""
    state, before = SessionState(session_id=scenario.key.id), Entry(*START, b"")
    for entry in scenario.entries:
        left = entry._replace(content=None) if entry.version in versions else entry
        state = evolve(state, read_entry(scenario.key, left, before, before.payload, state))
        before = entry
    return state


HISTORIES = {
    "pending": (opens(), ASKED),
    "allowed": (opens(), ASKED, replies("per_1", "once")),
    "corrected": (opens(), ASKED, replies("per_1", "reject", message="not with a secret")),
    "granted": (opens(), ASKED, replies("per_1", "session")),
    "cancelled": (opens(), ASKED, cancels("per_1", reason="gave up")),
    "by grant": (opens(), grants("grn_1", "bash", "*"), ASKED),
    "edited": (opens(), ASKED, replies("per_1", "once", edited={"command": "secret too"})),
    "reopened": (opens({"bash": "allow"}), ASKED, opens({"bash": "ask"}), claims(ASKED, Runner("hook", "1"))),
    "denied at the claim": (
        opens({"bash": "allow"}),
        ASKED,
        opens({"bash": "deny"}),
        claims(ASKED, Runner("hook", "1")),
    ),
    "ran": (opens(), ASKED, replies("per_1", "once"), finishes_tool("per_1", digest="0" * 64)),
}


@pytest.mark.parametrize("history", HISTORIES.values(), ids=list(HISTORIES))
def test_the_state_is_the_same_whether_the_content_was_folded_before_or_not(history: tuple[Command, ...]) -> None:
    whole = given(*history)
    for last in range(1, len(whole.entries) + 1):
        versions = [one.version for one in whole.entries[:last] if one.content is not None]
        scenario = redacted(given(*history), *versions)
        assert scenario.state == folded_without(scenario, *versions)


@pytest.mark.parametrize("verdict", ["ask", "deny"])
def test_a_reopening_alone_takes_the_content_of_its_request_along(verdict: str) -> None:
    history = (opens({"bash": "allow"}), ASKED, opens({"bash": verdict}), claims(ASKED, Runner("hook", "1")))
    scenario = redacted(given(*history), 4)
    assert scenario.state == folded_without(scenario, 4)
    found = scenario.state.find("per_1")
    assert found is not None
    assert (found.redacted, found.reopened_reason, found.input, found.patterns) == (True, None, None, ())


def test_nothing_of_a_redacted_request_is_left_in_the_state_but_who_when_and_how_it_ended() -> None:
    scenario = redacted(given(opens(), ASKED, replies("per_1", "reject", message="not with a secret")), 2, 3)
    settled = scenario.state.settled["per_1"]
    assert "secret" not in repr(scenario.state)
    assert (settled.outcome, settled.by.name, settled.reply) == ("corrected", "ann", "reject")
    assert (settled.request.permission, settled.request.redacted, settled.input_digest) == ("bash", True, None)


@pytest.mark.parametrize("end", [(), (replies("per_1", "once"),)], ids=["pending", "allowed"])
def test_whoever_asks_again_is_told_that_it_was_redacted(end: tuple[Command, ...]) -> None:
    redacted(given(opens(), ASKED, *end), 2).when(ASKED).then_refused(
        RedactedError,
        "REDACTED",
        contains="request `per_1` of session `ses_1` was redacted; ask again with another request id",
        request_id="per_1",
        session="ses_1",
    )


@pytest.mark.parametrize("word", ["once", "session", "always"])
def test_a_redacted_request_takes_no_yes(word: ReplyKind) -> None:
    redacted(given(opens(), ASKED), 2).when(replies("per_1", word)).then_refused(RedactedError, "REDACTED")


def test_a_redacted_request_can_be_rejected() -> None:
    redacted(given(opens(), ASKED), 2).when(replies("per_1", "reject")).then(
        Replied(request_id="per_1", reply="reject", outcome="rejected")
    )


def test_no_grant_releases_a_redacted_request() -> None:
    scenario = given(opens(project="shop"), ASKED, project=Project())
    redacted(scenario, 2).given(grants("grn_1", "bash", "*")).when(
        releases(project=AS_IT_STANDS)
    ).then_nothing_happens()


def test_a_yes_whose_changed_input_was_redacted_is_no_yes_to_the_asked_input() -> None:
    scenario = given(opens(), ASKED, replies("per_1", "once", edited={"command": "true"}))
    redacted(scenario, 3).when(ASKED).then_refused(RedactedError, "REDACTED")


def test_an_allow_of_a_project_is_not_judged_again_without_its_content() -> None:
    history = (opens(project="shop"), grants_in_project("grn_1", "bash", "*"), ASKED, revokes_in_project("grn_1"))
    scenario = redacted(given(*history, project=Project()), 2)
    scenario.when(rechecks(ASKED)).then_refused(RedactedError, "REDACTED")


def test_a_redacted_grant_lifts_nothing() -> None:
    scenario = redacted(given(opens(), grants("grn_1", "bash", "*"), grants("grn_2", "bash", "ls")), 2)
    assert [grant.in_force(scenario.now_ms) for grant in scenario.state.grants.values()].count(True) == 1
    assert scenario.given(asks("per_1", "rm x")).waiting() == ["per_1"]
    assert scenario.given(asks("per_2", "ls")).waiting() == ["per_1"]


def test_a_session_whose_rules_were_redacted_judges_nothing_until_it_has_rules_again() -> None:
    deny = {"bash": {"rm *": "deny"}}
    scenario = redacted(given(opens(deny), asks("per_1", "ls")), 1)
    for command in (asks("per_2", "rm x"), replies("per_1", "once"), replies("per_1", "reject")):
        scenario.when(command).then_refused(
            RedactedError, "REDACTED", contains="the rules of session `ses_1` were redacted; open it again with rules"
        )
    scenario.given(opens({"bash": {"rm *": "deny", "cp *": "deny"}}))
    assert scenario.given(asks("per_2", "rm x")).result("per_2").outcome == "denied"


def test_a_session_without_its_rules_can_be_closed() -> None:
    scenario = redacted(given(opens(), asks("per_1", "ls")), 1).given(closes())
    assert scenario.result("per_1").outcome == "cancelled"
