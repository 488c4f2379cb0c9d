"""The input lock as a condition on answers."""

from __future__ import annotations

from ledger.core.errors import NoInputLockError
from ledger.session.state import Request, SessionState


def overrides_lock(state: SessionState, request: Request, client_id: str | None, *, is_administrator: bool) -> bool:
    """Return whether an administrator acts without the input lock. Raises NoInputLockError for anybody else without."""
    if state.settings.answering == "anyone" or (client_id is not None and client_id == state.lock):
        return False
    if is_administrator:
        return True
    holder = f"`{state.lock}` holds it" if state.lock else "nobody holds it; connect and take it"
    raise NoInputLockError(
        f"only the client that holds the input lock may answer in session `{state.session_id}`: {holder}",
        request_id=request.request_id,
        session=state.session_id,
        holder=state.lock,
    )
