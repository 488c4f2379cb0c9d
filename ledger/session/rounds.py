"""The rounds of a request. A reopened request has a new one, and an answer counts only for the round it was given to.

Pure.
"""

from __future__ import annotations

from hashlib import sha256

from ledger.core.errors import DigestMismatchError
from ledger.session.state import Request, SessionState


def shown_digest(request: Request) -> str:
    """Return the digest under which a request is shown: its own, and from round 2 on the SHA-256 of it, LF, the round.

    So an answer that was given to an earlier round never counts for a later one.
    """
    if request.round == 1:
        return request.digest
    return sha256(f"{request.digest}\n{request.round}".encode()).hexdigest()


def require_round(state: SessionState, request: Request, digest: str | None, round_: int | None) -> None:
    """Raise DigestMismatchError for an answer to another request or round, or to none where there are several."""
    shown = shown_digest(request)
    names = {"request_id": request.request_id, "session": state.session_id, "round": request.round}
    if digest is not None and digest != shown:
        raise DigestMismatchError(
            f"the answer was given to a request with digest `{digest}`, but `{request.request_id}` has "
            f"`{shown}`{_since(request)}; look at it again",
            **names,
        )
    if round_ is not None and round_ != request.round:
        raise DigestMismatchError(
            f"the answer was given to round {round_} of request `{request.request_id}`, which is in round "
            f"{request.round}{_since(request)}; look at it again",
            **names,
        )
    if request.round > 1 and digest is None and round_ is None:
        raise DigestMismatchError(
            f"request `{request.request_id}` is in round {request.round}{_since(request)}; "
            "look at it again, and answer with its digest or its round",
            **names,
        )


def _since(request: Request) -> str:
    return f", because {request.reopened_reason}" if request.reopened_reason else ""
