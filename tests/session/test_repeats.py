"""An answer to a settled request is decided without rules, as it is with them."""

from __future__ import annotations

from typing import Final

import pytest

from ledger.core.errors import LedgerError
from ledger.core.events import GrantBounds
from ledger.core.policy import ReplyKind
from ledger.session.commands import OutdatedRulesError, Repeat, Reply
from tests.support.commands import ANN, BOB, asks, cancels, connects, opens, repeat_of, replies
from tests.support.rows import every
from tests.support.scenario import Scenario, given, later

RULES: Final = {"bash": {"*": "ask", "rm *": "deny", "ls": "allow"}}

ANSWERS: Final = [
    replies("per_1", "once"),
    replies("per_1", "once", by=BOB, message="fine"),
    replies("per_1", "session"),
    replies("per_1", "always"),
    replies("per_1", "always", told="y/n"),
    replies("per_1", "session", bounds=GrantBounds(uses=2)),
    replies("per_1", "always", patterns=("git push origin *",)),
    replies("per_1", "reject"),
    replies("per_1", "reject", message="use pnpm"),
    replies("per_1", "once", round_=2),
    replies("per_1", "once", shown="0" * 64),
]

SETTLED: Final = {
    "once": lambda: asked().given(replies("per_1", "once")),
    "session": lambda: asked().given(replies("per_1", "session")),
    "told always": lambda: asked().given(replies("per_1", "always", told="y/n")),
    "bounds": lambda: asked().given(replies("per_1", "session", bounds=GrantBounds(uses=2))),
    "reject": lambda: asked().given(replies("per_1", "reject")),
    "feedback": lambda: asked().given(replies("per_1", "reject", message="use pnpm")),
    "cancelled": lambda: asked().given(cancels("per_1")),
    "expired": lambda: given(opens(RULES), connects("phone"), asks("per_1", "git push"), later("70s")),
    "denied": lambda: given(opens(RULES), asks("per_1", "rm x")),
    "allowed": lambda: given(opens(RULES), asks("per_1", "ls")),
}


def asked() -> Scenario:
    return given(opens(RULES), asks("per_1", "git push", always=("git *",)))


def outcome(scenario: Scenario, answer: Reply | Repeat) -> object:
    """Return the events, or the refusal, of an answer."""
    happened = scenario.when(answer)
    refused: LedgerError | None = happened.refusal
    return happened.events if refused is None else (type(refused), refused.code, refused.text, refused.data)


@every("answer", ANSWERS, ids=lambda one: one.given.reply)
@every("settled", SETTLED)
def test_an_answer_to_a_settled_request_is_decided_with_and_without_rules_alike(settled: str, answer: Reply) -> None:
    scenario = SETTLED[settled]()
    assert outcome(scenario, repeat_of(answer)) == outcome(scenario, answer)


@pytest.mark.parametrize("reply", ["once", "session", "always", "reject"])
def test_the_same_answer_again_writes_nothing_and_needs_no_rules(reply: ReplyKind) -> None:
    scenario = asked().given(replies("per_1", reply), later("1d"))
    scenario.when(repeat_of(replies("per_1", reply, by=BOB))).then_nothing_happens()
    assert scenario.result("per_1").by == ANN


@pytest.mark.parametrize("request_id", ["per_1", "per_2"], ids=["waits", "unknown"])
def test_an_answer_to_a_request_that_is_not_settled_after_all_must_be_decided_by_the_rules(request_id: str) -> None:
    asked().when(repeat_of(replies(request_id, "once"))).then_refused(OutdatedRulesError, "OUTDATED_RULES")
