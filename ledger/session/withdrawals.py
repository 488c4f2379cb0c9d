"""Decisions on withdrawn requests and on notes."""

from __future__ import annotations

from ledger.core.commitments import keyed
from ledger.core.errors import (
    UnknownRequestError,
)
from ledger.core.events import (
    Cancelled,
    LogRegressed,
    ReasonDetail,
    ToolFinished,
    ToolFinishedDetail,
)
from ledger.core.masked_text import holds_mask
from ledger.core.notification_event import Notification, NotificationDetail
from ledger.masks.masking import is_recorded_digest
from ledger.session.claims import key_of_end, open_claim_of
from ledger.session.commands import (
    Cancel,
    NoteNotification,
    NoteRegression,
    NoteToolFinished,
)
from ledger.session.decision import Decision, require_opened
from ledger.session.repeats import already_answered
from ledger.session.state import SessionState, input_digest


def decide_cancel(state: SessionState, command: Cancel, now_ms: int) -> Decision:
    settled = state.settled.get(command.request_id)
    if settled is not None and settled.outcome == "cancelled":
        return Decision()
    if settled is not None:
        raise already_answered(state, settled)
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
    settled = state.settled.get(command.request_id) if command.request_id else None
    key, claim_id = command.key, command.claim_id
    if claim_id is None:
        claim_id = open_claim_of(settled)
    else:
        late_key = key_of_end(state, command.request_id, claim_id)
        key = late_key or key
        if (
            late_key is None
            and settled is not None
            and settled.claim is not None
            and settled.claim.status == "finished"
        ):
            return Decision()
    if key is not None and key in state.noted:
        return Decision()
    detail = ToolFinishedDetail(command.input, command.title, command.output, salt=command.salt)
    is_empty = command.digest is None and detail == ToolFinishedDetail(salt=command.salt)
    finished = ToolFinished(
        request_id=command.request_id,
        call_id=command.call_id,
        ok=command.ok,
        as_asked=_as_asked(state, command),
        digest=_digest_of_run(state, command),
        key=key,
        claim_id=claim_id,
        detail=None if is_empty else detail,
    )
    return Decision((finished,))


def _digest_of_run(state: SessionState, command: NoteToolFinished) -> str | None:
    """Return the digest of the call that ran as the log has it, where the call or its request has a masked secret."""
    if command.digest is None:
        return None
    digest = keyed(command.digest, command.salt)
    known = state.find(command.request_id or "")
    is_masked = holds_mask((command.input, None if known is None else (known.patterns, known.metadata)))
    return digest if command.masks is None or not is_masked else command.masks.digest(digest)


def _as_asked(state: SessionState, command: NoteToolFinished) -> bool | None:
    """Return whether the call ran as asked, or as a person changed it; None where that is unknown."""
    settled = state.settled.get(command.request_id) if command.request_id else None
    if settled is None or settled.request.redacted:
        return None
    if command.digest is not None:
        known = settled.request
        return is_recorded_digest(command.digest, known.digest, known.salt, command.masks)
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
