"""Notes: finished tools, notifications, and a log that lost entries."""

from __future__ import annotations

from ledger.core.commitments import keyed
from ledger.core.errors import UnknownSessionError
from ledger.core.event_shapes import Notification, NotificationDetail
from ledger.core.events import LogRegressed, ToolFinished, ToolFinishedDetail
from ledger.session.commands import NoteRegression
from tests.support.commands import AGENT, asks, closes, finishes_tool, notifies, opens, replies
from tests.support.salts import SALT, recorded_digest
from tests.support.scenario import Scenario, given

ASKED = asks("per_1", "ls")


def finished(*, as_asked: bool | None, digest: str | None) -> ToolFinished:
    return ToolFinished(
        request_id="per_1", as_asked=as_asked, digest=digest, detail=ToolFinishedDetail(output="done", salt=SALT)
    )


def test_a_tool_that_ran_as_it_was_asked_for_says_so() -> None:
    given(opens(), ASKED, replies("per_1", "once")).when(finishes_tool("per_1", digest=ASKED.question.digest)).then(
        finished(as_asked=True, digest=recorded_digest(ASKED))
    )


def test_a_tool_that_ran_with_something_else_says_so_too() -> None:
    other = "0" * 64
    given(opens(), ASKED, replies("per_1", "once")).when(finishes_tool("per_1", digest=other)).then(
        finished(as_asked=False, digest=keyed(other, SALT))
    )


def test_whether_it_ran_as_asked_is_open_when_the_caller_cannot_tell() -> None:
    given(opens(), ASKED).when(finishes_tool("per_1")).then(finished(as_asked=None, digest=None))


def test_a_tool_that_nobody_asked_for_is_noted_as_well() -> None:
    given(opens()).when(finishes_tool(None, ok=False)).then(
        ToolFinished(ok=False, detail=ToolFinishedDetail(output="done", salt=SALT))
    )


def test_a_tool_may_finish_after_its_session_was_closed() -> None:
    given(opens(), ASKED, closes()).when(finishes_tool("per_1")).then(finished(as_asked=None, digest=None))


def test_a_notification_is_recorded_with_where_it_went() -> None:
    given(opens(), ASKED).when(notifies("per_1")).then(
        Notification(request_id="per_1", service="ntfy", result="sent", detail=NotificationDetail("look"))
    )


def test_notes_change_nothing_that_is_decided_upon() -> None:
    scenario = given(opens(), ASKED)
    before = scenario.state
    scenario.given(notifies("per_1"), finishes_tool("per_1"))
    after = scenario.state
    assert (after.pending, after.settled, after.version) == (before.pending, before.settled, before.version + 2)


def test_a_session_that_was_never_opened_takes_no_note() -> None:
    for command in (finishes_tool(None), notifies("per_1")):
        Scenario().when(command).then_refused(UnknownSessionError, "UNKNOWN_SESSION")


def test_a_log_that_lost_entries_says_which() -> None:
    command = NoteRegression(actor=AGENT, seen_id="1800000000000-9", found_id="1800000000000-2")
    scenario = given(opens()).when(command).then(LogRegressed(seen_id="1800000000000-9", found_id="1800000000000-2"))
    assert scenario.state.version == 2
