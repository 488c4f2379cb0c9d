"""Sign-in codes, as in one-time links, for people authenticated by a provider or a proxy.

A token whose secret nobody has is made too. It has the person's role and ends with the session; the browser's token
ends with it. An administrator sees it in the list of tokens and can revoke it.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from ledger.client.tokens import Tokens
from ledger.core.durations import MINUTE_MS
from ledger.core.events import Actor
from ledger.core.requests import check_name
from workers.gateway.identity.roles import RoleOfGroup, granted

CODE_MS: Final = 2 * MINUTE_MS
"""Lifetime of a code: the browser is being redirected to the page that uses it."""


async def code_for(
    tokens: Tokens, name: str, groups: Collection[str], roles: Collection[RoleOfGroup], session_ms: int
) -> str:
    """Return a code that signs one browser in. Raises ForbiddenError, InputError, StoreError."""
    person = granted(roles, groups, check_name(name, "name"))
    actor = Actor("person", name, "inbox")
    root = await tokens.create(name, person.role, projects=person.projects, expires_in_ms=session_ms, actor=actor)
    code = await tokens.create(
        name,
        person.role,
        projects=person.projects,
        use="sign_in",
        expires_in_ms=CODE_MS,
        made_from=root.token.token_id,
        actor=actor,
    )
    return code.text
