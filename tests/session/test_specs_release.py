"""Requests that a project's new grants release elsewhere: their order, and the deadline of the write."""

from __future__ import annotations

from ledger.core.events import Cause, Replied
from tests.support.commands import asks, grants_in_project, opens, releases
from tests.support.scenario import T0, Project, Scenario, given, ms


def waiting_in(project: Project, *patterns: str) -> Scenario:
    requests = [asks(f"per_{number}", pattern) for number, pattern in enumerate(patterns, 1)]
    return given(opens(project=project.state.project_id), *requests, project=project)


def test_a_release_ends_what_waits_in_order_of_asking() -> None:
    scenario = waiting_in(Project(), "git push", "git log", "git fetch").given(
        grants_in_project("grn_1", "bash", "git *")
    )
    released = [one for one in scenario.when(releases()).events if isinstance(one, Replied)]
    cause = Cause(kind="grant", grant_id="grn_1")
    assert [(one.request_id, one.reply, one.outcome, one.cause) for one in released] == [
        (request_id, "always", "allowed", cause) for request_id in ("per_1", "per_2", "per_3")
    ]
    assert scenario.waiting() == []


def test_a_release_by_an_expiring_grant_must_be_written_before_that_ends() -> None:
    scenario = waiting_in(Project(), "git push").given(
        grants_in_project("grn_1", "bash", "git *", expires_in_ms=ms("1h"))
    )
    assert scenario.decision(releases()).not_after_ms == T0 + ms("1h") - 1


def test_a_release_by_a_lasting_grant_may_be_written_at_any_time() -> None:
    scenario = waiting_in(Project(), "git push").given(grants_in_project("grn_1", "bash", "git *"))
    assert scenario.decision(releases()).not_after_ms is None
