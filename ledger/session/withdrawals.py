"""Decisions on withdrawn requests and on notes."""

from __future__ import annotations

from ledger.core.errors import (
    AlreadyAnsweredError,
    UnknownRequestError,
)
from ledger.core.events import (
    Cancelled,
    LogRegressed,
    Notification,
    NotificationDetail,
    ReasonDetail,
    ToolFinished,
    ToolFinishedDetail,
)
from ledger.session.commands import (
    Cancel,
    NoteNotification,
    NoteRegression,
    NoteToolFinished,
)
from ledger.session.decision import Decision, require_opened
from ledger.session.state import SessionState, input_digest
from ledger.session.texts import describe_settled


def decide_cancel(state: SessionState, command: Cancel, now_ms: int) -> Decision:
    settled = state.settled.get(command.request_id)
    if settled is not None and settled.outcome == "cancelled":
        return Decision()
    if settled is not None:
        raise AlreadyAnsweredError(
            f"request `{command.request_id}` was already {describe_settled(settled)}",
            request_id=command.request_id,
            session=state.session_id,
            outcome=settled.outcome,
            reply=settled.reply,
            by=settled.by.name,
            at_ms=settled.at_ms,
        )
    if command.request_id not in state.pending:
        raise UnknownRequestError(
            f"session `{state.session_id}` has no request `{command.request_id}`",
            request_id=command.request_id,
            session=state.session_id,
        )
    detail = ReasonDetail(command.reason) if command.reason else None
    return Decision((Cancelled(request_id=command.request_id, cause=command.cause, detail=detail),))


def decide_note_tool_finished(state: SessionState, command: NoteToolFinished, now_ms: int) -> Decision:
    require_opened(state)
    if command.key is not None and command.key in state.noted:
        return Decision()
    detail = ToolFinishedDetail(command.input, command.title, command.output)
    finished = ToolFinished(
        request_id=command.request_id,
        call_id=command.call_id,
        ok=command.ok,
        as_asked=_as_asked(state, command),
        digest=command.digest,
        key=command.key,
        detail=detail,
    )
    return Decision((finished,))


def _as_asked(state: SessionState, command: NoteToolFinished) -> bool | None:
    """Return whether the call ran as asked, or as a person changed it; None where that is unknown."""
    settled = state.settled.get(command.request_id) if command.request_id else None
    if settled is None:
        return None
    if command.digest is not None:
        return settled.request.digest == command.digest
    if command.input is None or settled.input_digest is None:
        return None
    if settled.updated_input is not None:
        return bool(command.input == settled.updated_input)
    return settled.input_digest == input_digest(command.input)


def decide_note_notification(state: SessionState, command: NoteNotification, now_ms: int) -> Decision:
    require_opened(state)
    detail = NotificationDetail(command.text, command.target)
    noted = Notification(
        request_id=command.request_id,
        service=command.service,
        result=command.result,
        person=command.person,
        step=command.step,
        message_id=command.message_id,
        detail=detail,
    )
    return Decision((noted,))


def decide_note_regression(state: SessionState, command: NoteRegression, now_ms: int) -> Decision:
    return Decision((LogRegressed(seen_id=command.seen_id, found_id=command.found_id),))
