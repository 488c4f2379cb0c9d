"""The roles that may use each operation. An operation that is not in the table cannot be served.

An agent asks and reads its own requests; it never answers, grants, revokes or connects as a person.
"""

from __future__ import annotations

from typing import Final

from ledger.core.access_events import Role

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
