"""The decision of a command, and checks that several commands share."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from ledger.core.errors import (
    NewerSchemaError,
    NoInputLockError,
    RedactedError,
    SessionClosedError,
    UnknownRequestError,
    UnknownSessionError,
)
from ledger.core.events import Event
from ledger.core.grants import StandingGrant, Taker, earliest_expiry
from ledger.core.standing import Standing
from ledger.project.state import ProjectState
from ledger.session.state import Request, SessionState


class Decision(msgspec.Struct, frozen=True, gc=False):
    """Events, and the server time (ms) after which they must not be written, because their grounds end then."""

    events: tuple[Event, ...] = ()
    not_after_ms: int | None = None


def require_open(state: SessionState, **about: str) -> None:
    """Raise SessionClosedError for a closed session; `about` adds members to its data."""
    require_opened(state)
    if state.closed_ms is not None:
        raise SessionClosedError(f"session `{state.session_id}` is closed", session=state.session_id, **about)


def require_readable(state: SessionState) -> None:
    """Raise NewerSchemaError for a session with events of a newer schema: no decision or outcome may rest on it."""
    if state.newer:
        raise NewerSchemaError(
            f"session `{state.session_id}` holds events of a newer version; upgrade this worker",
            session=state.session_id,
        )


def unknown_request(state: SessionState, request_id: str | None) -> UnknownRequestError:
    return UnknownRequestError(
        f"session `{state.session_id}` has no request `{request_id}`", request_id=request_id, session=state.session_id
    )


def require_content(session_id: str, request: Request) -> None:
    """Raise RedactedError for a request whose content was redacted: nobody can know any more what it was about."""
    if request.redacted:
        raise RedactedError(
            f"request `{request.request_id}` of session `{session_id}` was redacted; ask again with another request id",
            request_id=request.request_id,
            session=session_id,
        )


def require_rules(state: SessionState) -> None:
    """Raise RedactedError for a session whose rules were redacted: without them nothing can be judged."""
    if state.rules_redacted:
        raise RedactedError(
            f"the rules of session `{state.session_id}` were redacted; open it again with rules, or begin another one",
            session=state.session_id,
        )


def require_opened(state: SessionState) -> None:
    """Raise UnknownSessionError before a session is opened. Notes are accepted after it is closed."""
    if state.opened_ms is None:
        raise UnknownSessionError(f"there is no session `{state.session_id}`", session=state.session_id)


def standing_grants(
    state: SessionState, project: ProjectState | None, now_ms: int, taker: Taker | None = None
) -> Standing:
    """Return the grants in force: the session's own, then its project's; used-up ones for a `taker` that holds a use."""
    if project is None:
        return Standing((state.grants,), now_ms, taker)
    if project.newer:
        raise NewerSchemaError(
            f"project `{project.project_id}` holds events of a newer version; upgrade this worker",
            project=project.project_id,
        )
    return Standing((state.grants, project.grants), now_ms, taker)


def until_expiry(used: Iterable[StandingGrant]) -> int | None:
    expiry = earliest_expiry(used)
    return None if expiry is None else expiry - 1


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
