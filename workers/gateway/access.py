"""The roles that may use each operation. An operation that is not in the table cannot be served.

An agent asks and reads its own requests; it never answers, grants, revokes or connects as a person.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ledger.access.state import Token
from ledger.core.access_events import Role
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


AGENT: Final[Role] = "agent"
APPROVER: Final[Role] = "approver"
AUDITOR: Final[Role] = "auditor"
ADMIN: Final[Role] = "admin"

EVERYBODY: Final = frozenset({AGENT, APPROVER, AUDITOR, ADMIN})
READERS: Final = EVERYBODY
PEOPLE: Final = frozenset({APPROVER, ADMIN})
LOOKING_BACK: Final = frozenset({APPROVER, AUDITOR, ADMIN})
ASKING: Final = frozenset({AGENT, ADMIN})
ADMINS: Final = frozenset({ADMIN})
ANYBODY: Final[frozenset[Role]] = frozenset()
"""Open to callers without a token; such operations return nothing about any session."""

ACCESS: Final[dict[str, frozenset[Role]]] = {
    # sessions
    "open_session": ASKING,
    "list_sessions": READERS,
    "read_session": READERS,
    "close_session": ASKING,
    "read_state": LOOKING_BACK,
    "read_timeline": LOOKING_BACK,
    "read_log": LOOKING_BACK,
    "read_outline": LOOKING_BACK,
    "verify_session": LOOKING_BACK,
    # asks
    "ask": ASKING,
    "read_ask": READERS,
    "explain_ask": LOOKING_BACK,
    "reply": PEOPLE,
    "reply_to_many": PEOPLE,
    "extend": PEOPLE,
    "record_answer": ASKING,
    "cancel_ask": frozenset({AGENT, APPROVER, ADMIN}),
    "note_tool_finished": ASKING,
    "claude_hook": ASKING,
    "read_claude_hook": ASKING,
    # claims of calls
    "claim_ask": ASKING,
    "finish_ask": ASKING,
    "release_claim": frozenset({AGENT, APPROVER, ADMIN}),
    "end_claims": ASKING,
    "list_pending": READERS,
    "search_requests": LOOKING_BACK,
    "find_request": LOOKING_BACK,
    # events
    "session_events": READERS,
    "all_events": READERS,
    # for OpenCode's own clients
    "opencode_list": READERS,
    "opencode_reply": PEOPLE,
    "opencode_respond": PEOPLE,
    "opencode_events": READERS,
    "opencode_global_events": READERS,
    # grants
    "list_grants": READERS,
    "create_grant": PEOPLE,
    "revoke_grant": PEOPLE,
    # freezes
    "list_freezes": READERS,
    "freeze": PEOPLE,
    "unfreeze": ADMINS,
    "list_grant_uses": LOOKING_BACK,
    # presence
    "connect_client": PEOPLE,
    "disconnect_client": PEOPLE,
    "take_lock": PEOPLE,
    "pass_lock": PEOPLE,
    "open_inbox": PEOPLE,
    "leave_inbox": PEOPLE,
    # rules
    "check_policy": EVERYBODY,
    "explain_policy": EVERYBODY,
    "list_changed_rules": LOOKING_BACK,
    # tokens and signing in
    "list_tokens": ADMINS,
    "create_token": ADMINS,
    "revoke_token": ADMINS,
    "read_me": EVERYBODY,
    "sign_in": ANYBODY,
    "sign_out": ANYBODY,
    # people whom a provider or a proxy authenticates
    "sign_in_ways": ANYBODY,
    "oidc_sign_in": ANYBODY,
    "oidc_callback": ANYBODY,
    "oidc_sign_out": ANYBODY,
    "proxy_sign_in": ANYBODY,
    # passkeys of the signed-in person
    "list_passkeys": PEOPLE,
    "challenge_passkey": PEOPLE,
    "register_passkey": PEOPLE,
    "remove_passkey": PEOPLE,
    "challenge_answer": PEOPLE,
    # notifications of the signed-in person
    "read_notifications": PEOPLE,
    "choose_notifications": PEOPLE,
    "subscribe_device": PEOPLE,
    "test_device": PEOPLE,
    "remove_device": PEOPLE,
    # the page, which contains no data of its own
    "inbox_page": ANYBODY,
    "inbox_file": ANYBODY,
    "service_worker": ANYBODY,
    # answer links: possession of the link is the right to answer
    "show_answer": ANYBODY,
    "answer_by_link": ANYBODY,
    # the service itself
    "read_metrics": frozenset({AUDITOR, ADMIN}),
    "health": ANYBODY,
    "readiness": ANYBODY,
    "openapi": ANYBODY,
}
