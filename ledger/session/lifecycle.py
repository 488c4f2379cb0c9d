"""Decisions on opening, attaching to and closing a session."""

from __future__ import annotations

from ledger.core.errors import (
    InputError,
)
from ledger.core.events import (
    Cancelled,
    PolicyChanged,
    PolicyDetail,
    ReasonDetail,
    SessionClosed,
    SessionOpened,
    Settings,
)
from ledger.core.policy import PolicySource, edition_of
from ledger.session.commands import (
    Close,
    Open,
)
from ledger.session.decision import Decision, require_open, require_rules
from ledger.session.open_claims import ends_unknown, open_claims
from ledger.session.state import SessionState, in_order


def decide_open_session(state: SessionState, command: Open, now_ms: int) -> Decision:
    if state.opened_ms is None:
        opened = SessionOpened(
            project=command.project,
            agent=command.agent,
            parent=command.parent,
            dialect=(command.policy or PolicySource()).dialect,
            edition=edition_of(command.policy or PolicySource()),
            policy_digest=command.policy_digest,
            policy_source=command.policy_source,
            settings=command.settings or Settings(),
            detail=_detail(command.cwd, command.home),
            token_id=command.token_id,
        )
        return Decision((opened,))
    _same(state, "project", state.project, command.project)
    if state.closed_ms is not None:
        return Decision()
    is_other = command.policy_digest != state.policy_digest or state.rules_redacted
    policy_changes = command.policy is not None and is_other
    settings = command.settings or state.settings
    if not policy_changes and settings == state.settings:
        return Decision()
    if not policy_changes:
        require_rules(state)
    spoken = command.policy or state.language
    changed = PolicyChanged(
        dialect=spoken.dialect,
        edition=edition_of(spoken),
        policy_digest=command.policy_digest if policy_changes else state.policy_digest,
        policy_source=command.policy_source if policy_changes else state.policy_source,
        settings=settings,
        detail=_detail(command.cwd or state.cwd, command.home or state.home),
    )
    return Decision((changed,))


def _detail(cwd: str | None, home: str | None) -> PolicyDetail | None:
    return None if cwd is None and home is None else PolicyDetail(cwd, home)


def _same(state: SessionState, what: str, has: str | None, wanted: str | None) -> None:
    if wanted is not None and wanted != has:
        raise InputError(
            f"session `{state.session_id}` has {what} `{has or 'none'}`, not `{wanted}`; use another session id",
            session=state.session_id,
        )


def decide_close(state: SessionState, command: Close, now_ms: int) -> Decision:
    if state.closed_ms is not None:
        return Decision()
    require_open(state)
    cancelled = [
        Cancelled(request_id=request.request_id, cause="session_closed") for request in in_order(state.pending.values())
    ]
    ended = ends_unknown(open_claims(state), "session_closed")
    closed = SessionClosed(detail=ReasonDetail(command.reason) if command.reason else None)
    return Decision((*cancelled, *ended, closed))
