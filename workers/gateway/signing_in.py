"""Sign-in of browsers with a token or a one-time link; either gives the browser a token of its own."""

from __future__ import annotations

import hmac
from hashlib import sha256
from typing import Any

from ledger.access.state import Token
from ledger.client.tokens import Made, Tokens
from ledger.core.access_events import Role
from ledger.core.errors import UnauthorizedError
from ledger.core.events import Actor
from ledger.core.times import DAY_MS, MINUTE_MS
from ledger.stores.secrets import deployment_secret
from workers.gateway.gateway import Gateway
from workers.gateway.settings import BROWSER_DAYS, SIGN_IN_LINK_MINUTES


async def browser_from_token(gateway: Gateway, token: Token) -> Made:
    """Return a browser token with the rights of the given token, which ends with it. Raises UnauthorizedError."""
    if token.use != "bearer":
        raise UnauthorizedError("this is not a token to sign in with")
    return await gateway.tokens.create(
        token.name,
        token.role,
        **_reach_of(token),
        use="browser",
        expires_in_ms=_browser_ms(gateway, token),
        made_from=token.token_id,
        actor=Actor("person", token.name, "inbox", token.token_id),
    )


async def browser_from_link(gateway: Gateway, link: Token) -> Made:
    """Return a browser token for the first user of this link. Raises UnauthorizedError, UnknownTokenError."""
    if link.use != "sign_in":
        raise UnauthorizedError("this is not a sign-in link")
    # For a person from a provider, the browser token ends with the session that began there.
    root = link if link.made_from is None else gateway.tokens.held(link.made_from)
    if root is None:
        raise UnauthorizedError("this sign-in has expired; begin it again")
    return await gateway.tokens.create(
        link.name,
        link.role,
        **_reach_of(link),
        use="browser",
        expires_in_ms=_browser_ms(gateway, root),
        made_from=root.token_id,
        redeems=link.token_id,
        actor=Actor("person", link.name, "inbox", link.token_id),
    )


def _browser_ms(gateway: Gateway, root: Token) -> int:
    """Return the lifetime of a sign-in in ms: at most that of the token behind it. A one-time link has none."""
    most_ms = BROWSER_DAYS * DAY_MS
    if root.use == "sign_in" or root.expires_ms is None:
        return most_ms
    return max(1, min(most_ms, root.expires_ms - gateway.now_ms))


def _reach_of(token: Token) -> dict[str, Any]:
    """Return the arguments of `Tokens.create` that give a browser the reach of its token; it brings no rules."""
    return {
        "projects": token.projects,
        "sessions": token.sessions,
        "owner": token.owner,
        "everything": token.everything,
        "any_project": token.any_project,
        "folders": token.folders,
    }


async def sign_in_link(tokens: Tokens, public_url: str, name: str, role: Role = "admin") -> str:
    """Return a link that signs one browser in, once, within minutes. Raises StoreError."""
    made = await tokens.create(name, role, use="sign_in", expires_in_ms=SIGN_IN_LINK_MINUTES * MINUTE_MS)
    return f"{public_url}/sign-in?code={made.text}"


async def secret_for(gateway: Gateway, key: str) -> str:
    """Return the secret of a token for a repeatable request: the same each time, and not guessable."""
    return hmac.new(await deployment_secret(gateway.ledger.store), f"token\n{key}".encode(), sha256).hexdigest()
