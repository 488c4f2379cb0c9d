"""Decisions on grants of a session without a request, and on their revocation."""

from __future__ import annotations

from ledger.core.errors import (
    InputError,
    UnknownGrantError,
)
from ledger.core.events import (
    Granted,
    GrantedDetail,
    ReasonDetail,
    Revoked,
)
from ledger.session.commands import (
    MakeGrant,
    Revoke,
)
from ledger.session.decision import Decision, require_open
from ledger.session.state import SessionState


def decide_grant(state: SessionState, command: MakeGrant, now_ms: int) -> Decision:
    known = state.grants.get(command.grant_id)
    if known is not None:
        if (known.permission, known.pattern) != (command.permission, command.pattern):
            raise InputError(f"the grant id `{command.grant_id}` is taken by another grant", grant_id=command.grant_id)
        return Decision()
    require_open(state)
    granted = Granted(
        grant_id=command.grant_id,
        permission=command.permission,
        scope="session",
        expires_in_ms=command.expires_in_ms,
        uses=command.uses,
        session=state.session_id,
        detail=GrantedDetail(command.pattern, command.reason),
    )
    return Decision((granted,))


def decide_revoke(state: SessionState, command: Revoke, now_ms: int) -> Decision:
    grant = state.grants.get(command.grant_id)
    if grant is None:
        raise UnknownGrantError(
            f"session `{state.session_id}` has no grant `{command.grant_id}`",
            grant_id=command.grant_id,
            session=state.session_id,
        )
    if grant.revoked_ms is not None:
        return Decision()
    detail = ReasonDetail(command.reason) if command.reason else None
    return Decision((Revoked(grant_id=command.grant_id, detail=detail),))
