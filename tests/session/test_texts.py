"""The agent's texts, word for word, in each dialect and edition."""

from __future__ import annotations

from typing import Any

import pytest

from ledger.core.events import Settings
from ledger.core.times import spell_duration
from ledger.session.texts import describe_settled
from tests.support.commands import Rules, asks, closes, connects, opens, replies
from tests.support.scenario import given, later, ms

DENIED = (
    "The user has specified a rule which prevents you from using this specific tool call. "
    "Here are some of the relevant rules"
)
DENYING = '[{"permission":"*","pattern":"*","action":"ask"},{"permission":"bash","pattern":"rm *","action":"deny"}]'
REJECTED = "The user rejected permission to use this specific tool call."


def test_a_reject_has_the_same_words_everywhere() -> None:
    for opening in (opens(), opens(edition="opencode.md"), opens(dialect="brutus"), opens(dialect="betcode")):
        scenario = given(opening, asks("per_1", "ls"), replies("per_1", "reject"))
        assert (scenario.result("per_1").message, scenario.result("per_1").agent) == (REJECTED, "stop")


def test_codelia_tells_a_reject_as_a_permission_denied_for_its_own_reason() -> None:
    """codelia.md 9: `Permission denied: <reason>`; nobody gave a reason, so the reason is that it was denied."""
    scenario = given(opens(dialect="codelia"), asks("per_1", "ls"), replies("per_1", "reject"))
    told = scenario.result("per_1")
    assert (told.code, told.message, told.agent) == ("REJECTED", "Permission denied: permission denied", "stop")


@pytest.mark.parametrize(
    ("dialect", "options", "text"),
    [
        ("opencode", {}, f"{REJECTED[:-1]} with the following feedback: use pnpm"),
        ("opencode", {"edition": "current"}, f"{REJECTED[:-1]} with the following feedback: use pnpm"),
        ("opencode", {"edition": "opencode.md"}, "The user rejected permission with feedback: use pnpm"),
        ("brutus", {}, "Permission rejected with feedback: use pnpm"),
        ("betcode", {}, f"{REJECTED[:-1]} with the following feedback: use pnpm"),
        ("codelia", {}, "Permission denied: use pnpm"),
    ],
)
def test_a_reject_with_feedback_is_told_as_its_source_does(dialect: str, options: dict[str, Any], text: str) -> None:
    scenario = given(opens(dialect=dialect, **options), asks("per_1", "ls"))
    scenario.given(replies("per_1", "reject", message="use pnpm"))
    assert (scenario.result("per_1").message, scenario.result("per_1").agent) == (text, "continue")


def test_feedback_is_passed_on_as_it_was_written() -> None:
    feedback = "{message} %s `rm`\nüñí"
    scenario = given(opens(), asks("per_1", "ls"), replies("per_1", "reject", message=feedback))
    assert scenario.result("per_1").message == f"{REJECTED[:-1]} with the following feedback: {feedback}"


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            {},
            f"{DENIED} {DENYING}",
        ),
        (
            {"edition": "opencode.md"},
            f"Rule prevents this tool call: {DENYING}",
        ),
    ],
)
def test_a_denial_lists_the_rules_of_that_permission(options: dict[str, Any], text: str) -> None:
    rules: Rules = {"*": "ask", "edit": "deny", "bash": {"rm *": "deny"}}
    assert given(opens(rules, **options), asks("per_1", "rm x")).result("per_1").message == text


@pytest.mark.parametrize(
    ("attended", "text"),
    [
        ("60s", "Permission request timed out after 60 seconds."),
        ("1s", "Permission request timed out after 1 second."),
        ("5m", "Permission request timed out after 300 seconds."),
        ("36h", "Permission request timed out after 1.5 days."),
    ],
)
def test_an_attended_request_timed_out_after_the_configured_duration(attended: str, text: str) -> None:
    settings = Settings(attended_ms=ms(attended))
    scenario = given(opens(settings=settings), connects("phone"), asks("per_1", "ls"), later(attended), closes())
    assert (scenario.result("per_1").message, scenario.result("per_1").agent) == (text, "continue")


@pytest.mark.parametrize(
    ("unattended", "text"),
    [
        ("7d", "Permission request expired after 7 days."),
        ("1d", "Permission request expired after 1 day."),
        ("2h", "Permission request expired after 7200 seconds."),
    ],
)
def test_an_unattended_request_expired_after_the_configured_duration(unattended: str, text: str) -> None:
    settings = Settings(unattended_ms=ms(unattended))
    scenario = given(opens(settings=settings), asks("per_1", "ls"), later(unattended), closes())
    assert scenario.result("per_1").message == text


@pytest.mark.parametrize(
    ("duration_ms", "spelt"),
    [(1, "0.001 seconds"), (500, "0.5 seconds"), (90_000, "90 seconds"), (86_399_000, "86399 seconds")],
)
def test_durations_below_a_day_are_spelt_in_seconds(duration_ms: int, spelt: str) -> None:
    assert spell_duration(duration_ms) == spelt


def test_who_comes_too_late_is_told_how_it_ended_by_whom_and_how() -> None:
    scenario = given(
        opens({"edit": "deny", "read": "allow", "bash": "ask"}),
        connects("phone"),
        asks("per_1", "ls", always=("ls",)),
        asks("per_2", "a.py", permission="edit"),
        asks("per_3", "a.py", permission="read"),
        asks("per_4", "make"),
        replies("per_1", "always"),
        asks("per_5", "ls"),
        later("61s"),
        closes(),
    )
    told = {one: describe_settled(settled) for one, settled in scenario.state.settled.items()}
    grant = scenario.state.settled["per_5"].request.grants[0]
    assert told == {
        "per_1": "allowed by ann (always)",
        "per_2": "denied by rule",
        "per_3": "allowed by rule",
        "per_4": "expired",
        "per_5": f"allowed by grant {grant}",
    }
