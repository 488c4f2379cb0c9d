"""The reach of new tokens and grants, bounded by that of their maker: nobody makes, sees or ends any beyond it."""

from __future__ import annotations

from collections.abc import Sequence

from ledger.access.state import Token
from ledger.core.characters import person_key
from ledger.session.signed_claims import always_scope
from ledger.session.state import SessionState
from workers.gateway.bodies import TokenBody
from workers.gateway.gateway import Gateway
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


async def require_free_name(gateway: Gateway, principal: Principal, data: TokenBody) -> None:
    """Raise ForbiddenError for a token in the name of somebody else, unless the caller's own is bound to nothing."""
    if principal.is_unbounded:
        return
    name = data.name if data.role != "agent" else data.owner or principal.name
    is_other = person_key(name) != person_key(principal.actor.person)
    if is_other and (data.role == "agent" or await gateway.tokens.is_taken(name, principal.actor)):
        raise ForbiddenError(
            f"`{name}` is another person, and your own token is bound to projects or sessions: a token in their name is made "
            f"by an administrator whose token is bound to nothing, or with `token create` on the ledger's own machine",
            name=name,
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
