"""The reach of new tokens and grants, bounded by that of their maker: nobody makes, sees or ends any beyond it."""

from __future__ import annotations

from collections.abc import Sequence

from ledger.access.state import Token
from ledger.session.state import SessionState
from ledger.session.wanted import always_scope
from workers.gateway.principals import ForbiddenError, Principal


def has_within(principal: Principal, token: Token) -> bool:
    """Return whether a token reaches nothing that the caller does not reach."""
    projects = token.projects or (() if token.claimed is None else (token.claimed,))
    return _is_within(projects, principal.projects) and _is_within(token.sessions, principal.sessions)


def require_within(principal: Principal, projects: Sequence[str], sessions: Sequence[str]) -> None:
    """Raise ForbiddenError for a new token that would reach beyond the caller."""
    for what, wanted, own in (("projects", projects, principal.projects), ("sessions", sessions, principal.sessions)):
        if not _is_within(wanted, own):
            raise ForbiddenError(
                f"your own token is bound to {what} {_named(own)}; give `{what}` with only these",
                projects=list(principal.projects),
                sessions=list(principal.sessions),
            )


def require_grantable(principal: Principal, state: SessionState, reply: str) -> None:
    """Raise ForbiddenError for an `always` that would make a project grant when the caller reaches only sessions."""
    if reply != "always" or state.project is None or always_scope(state) != "project":
        return
    if not principal.reaches_project(state.project):
        raise ForbiddenError(
            f"`always` would allow it in all of project `{state.project}`, and your token reaches sessions of it alone; "
            "answer `session` or `once`",
            session=state.session_id,
            sessions=list(principal.sessions),
        )


def _is_within(wanted: Sequence[str], own: Sequence[str]) -> bool:
    """Return whether the bound `own` includes the bound `wanted`; an empty one is unbounded."""
    return not own or (bool(wanted) and set(wanted) <= set(own))


def _named(ids: Sequence[str]) -> str:
    return ", ".join(f"`{one}`" for one in ids)
