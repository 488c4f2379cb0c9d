"""Authenticates and authorizes every route; unknown routes are refused."""

from __future__ import annotations

from base64 import b64decode
from contextlib import suppress
from typing import Any, Final

from litestar.connection import ASGIConnection
from litestar.exceptions import ClientException
from litestar.handlers import BaseRouteHandler

from ledger.access.state import Token
from ledger.client.tokens import is_proof_of
from ledger.core.addresses import split_address
from ledger.core.errors import UnauthorizedError
from ledger.log.reads import AuditedRead
from workers.gateway.access import ACCESS, ANYBODY
from workers.gateway.gateway import Gateway
from workers.gateway.names import own_origins, restore_slashes
from workers.gateway.principals import LOCAL, ForbiddenError, Principal, principal_of
from workers.gateway.settings import BODY_BYTES_MAX

TRANSPORT: Final = "permission_ledger.transport"
"""ASGI extension with which the server passes the connection (an asyncio transport)."""

COOKIE: Final = "permission_ledger"
SECURE_COOKIE: Final = "__Host-permission_ledger"
"""The same cookie over TLS: browsers keep this name to this host and to TLS. Both names end with the port, if one is named:
browsers keep one cookie of a name for all ports of a host, and another gateway there would sign its visitors out of this."""

PROOF_HEADER: Final = "Permission-Ledger-Proof"
"""Header of the proof: the second secret of a browser's sign-in, which the page keeps in the storage of its origin.

A browser sends a cookie to every port of a host, so a server on another port of this machine receives it too. The
storage belongs to one port, and no browser sends its content by itself.
"""

SIGN_IN_PATH: Final = "/v1/sign-in"
SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
BEARER: Final = "bearer"
BASIC: Final = "basic"

COST_BYTES: Final = 16 * 1024
"""Bytes of a body that count as one more request."""

Connection = ASGIConnection[Any, Any, Any, Any]


class CsrfError(ForbiddenError):
    """A signed-in request from a browser that a page of another origin may have made."""

    code = "CSRF"


class HalfSignedInError(UnauthorizedError):
    """A browser's cookie without the proof that belongs to it."""

    code = "SIGN_IN_AGAIN"


async def guard(connection: Connection, handler: BaseRouteHandler) -> None:
    """Let a request through to its route. Raises UnauthorizedError, ForbiddenError, RateLimitedError."""
    restore_slashes(connection.scope)
    gateway: Gateway = connection.app.state.gateway
    if connection.scope.get("method") == "OPTIONS":
        # The framework answers OPTIONS for each of our routes with its methods; it lets no page of another origin in.
        gateway.limiter.take(f"{address_of(connection)} options")
        return
    operation = operation_of(handler)
    roles = ACCESS[operation]
    if roles is ANYBODY:
        gateway.limiter.take(_anybody(connection, gateway, operation))
        require_content_type(connection, handler)
        return
    try:
        principal = await authenticate(connection, gateway)
    except UnauthorizedError:
        gateway.limiter.take(f"{address_of(connection)} refused")
        raise
    caller = principal.token_id or address_of(connection)
    gateway.limiter.take(caller, cost_of(connection))
    await gateway.turns.take(caller)
    if principal.role not in roles:
        allowed = ", ".join(sorted(roles))
        raise ForbiddenError(f"a token of role {principal.role} may not do this; it takes one of: {allowed}")
    require_content_type(connection, handler)
    connection.scope["user"] = principal


async def authenticate(connection: Connection, gateway: Gateway) -> Principal:
    """Return the author of a request, by its bearer token, or by its cookie and proof.

    Raises UnauthorizedError, HalfSignedInError, CsrfError.
    """
    header = connection.headers.get("authorization")
    if header is not None:
        token = await _find(connection, gateway, _token_in(connection, gateway, header), "bearer")
        return principal_of(token, claimed=gateway.tokens.claimed_by(token))
    if cookie_of(connection) is not None:
        require_same_origin(connection, gateway)
        token = await browser_token(connection, gateway)
        return principal_of(token, "inbox", claimed=gateway.tokens.claimed_by(token))
    if gateway.settings.open_to_all:
        require_same_origin(connection, gateway)
        return LOCAL
    raise UnauthorizedError("a token is needed: send it as `Authorization: Bearer …`, or sign in")


def _token_in(connection: Connection, gateway: Gateway, header: str) -> str:
    """Return the token in a header: a bearer token, or the password of basic authentication (OpenCode's clients)."""
    kind, _, value = header.partition(" ")
    if kind.lower() == BEARER:
        return value.strip()
    if kind.lower() != BASIC:
        raise UnauthorizedError("the authorization header must be `Bearer` and a token, or `Basic` with it as password")
    # A browser repeats these credentials without being asked, for pages of other origins too.
    if connection.scope.get("method") not in SAFE_METHODS and _is_foreign(connection, gateway):
        raise CsrfError("a signed-in browser may make changes only from this gateway's own pages")
    try:
        return b64decode(value.strip(), validate=True).decode().partition(":")[2]
    except ValueError:
        raise UnauthorizedError("the header `Authorization: Basic` is not the base64 of `user:token`") from None


async def find_token(connection: Connection, gateway: Gateway, text: str) -> Token:
    """Return the token that has this text. Raises UnauthorizedError, RateLimitedError.

    A text that this process does not have costs a request to the server, and guesses count against their address. A
    token is cached a moment after it was made, and a cached token is never refused because of others' guesses.
    """
    try:
        return gateway.tokens.known(text) or await _looked_up(connection, gateway, text)
    except UnauthorizedError:
        what = connection.scope["path"] if connection.scope["path"] == SIGN_IN_PATH else None
        gateway.reads.note(AuditedRead(kind="failed_sign_in", what=what, address=address_of(connection)))
        raise


async def _looked_up(connection: Connection, gateway: Gateway, text: str) -> Token:
    gateway.sign_in_limiter.check(address_of(connection))
    try:
        return await gateway.tokens.find(text)
    except UnauthorizedError:
        gateway.sign_in_limiter.take(address_of(connection))
        raise


async def _find(connection: Connection, gateway: Gateway, text: str, use: str) -> Token:
    token = await find_token(connection, gateway, text)
    if token.use != use:
        raise UnauthorizedError(f"this is a token of another use ({token.use}); ask for a bearer token")
    return token


async def browser_token(connection: Connection, gateway: Gateway) -> Token:
    """Return the token of a request's cookie if the request also carries the proof of it.

    Raises UnauthorizedError, HalfSignedInError.
    """
    token = await _find(connection, gateway, cookie_of(connection) or "", "browser")
    if is_proof_of(token, connection.headers.get(PROOF_HEADER, "")):
        return token
    raise HalfSignedInError(
        f"the cookie is valid only together with the header `{PROOF_HEADER}`, which the inbox sends; sign in again"
    )


def cookie_of(connection: Connection) -> str | None:
    """Return the text of a browser's token, preferring the cookie that is bound to TLS."""
    cookies = connection.cookies
    if not cookies:
        return None
    return cookies.get(at_port(SECURE_COOKIE, connection), cookies.get(at_port(COOKIE, connection)))


def at_port(cookie: str, connection: Connection) -> str:
    """Return the name of a cookie at the port that the browser addresses."""
    port = split_address(f"//{connection.headers.get('host', '')}").port
    return cookie if port is None else f"{cookie}_{port}"


def require_same_origin(connection: Connection, gateway: Gateway) -> None:
    """Raise CsrfError for an unsafe request of another origin: a page cannot forge the Origin that a browser sends."""
    if connection.scope.get("method") in SAFE_METHODS:
        return
    origin = connection.headers.get("origin")
    site = connection.headers.get("sec-fetch-site")
    if origin is None and site is None and gateway.settings.open_to_all:
        return  # not a browser, so it has no cookie that another page could misuse
    if origin is None or _is_foreign(connection, gateway):
        raise CsrfError("a signed-in browser may make changes only from this gateway's own pages")


def require_own_pages(connection: Connection, gateway: Gateway) -> None:
    """Raise CsrfError for a page of another origin, on routes without sign-in. Programs, which send no Origin, pass."""
    if _is_foreign(connection, gateway):
        raise CsrfError("this may be sent from this gateway's own pages only")


def _is_foreign(connection: Connection, gateway: Gateway) -> bool:
    origin, site = connection.headers.get("origin"), connection.headers.get("sec-fetch-site")
    told = (gateway.settings.public_url, *gateway.settings.hosts)
    own = own_origins(connection.scope, connection.headers.get("host"), told)
    return (origin is not None and origin not in own) or site not in (None, "same-origin")


def operation_of(handler: BaseRouteHandler) -> str:
    """Return the name of a route in the table of roles."""
    named = getattr(handler, "operation_id", None) or handler.opt.get("operation")
    return str(named)


def require_content_type(connection: Connection, handler: BaseRouteHandler) -> None:
    """Refuse a body of another content type than its route reads. Raises ClientException, with 415.

    A page of another origin may send some types without a preflight request, but not JSON.
    """
    body = handler.parsed_fn_signature.parameters.get("data")
    wanted = getattr(None if body is None else body.kwarg_definition, "media_type", None)
    said = connection.headers.get("content-type")
    if wanted is not None and said is not None and said.partition(";")[0].strip().lower() != wanted:
        raise ClientException(f"a body of type `{said}` is not accepted here; send `{wanted.value}`", status_code=415)


def cost_of(connection: Connection) -> int:
    """Return the number of requests that a request counts as: a long body takes as long to read as many short ones.

    A body of unknown length counts as the longest.
    """
    said = connection.headers.get("content-length")
    if said is None:
        size = BODY_BYTES_MAX if "transfer-encoding" in connection.headers else 0
    else:
        size = min(int(said), BODY_BYTES_MAX) if said.isdecimal() else BODY_BYTES_MAX
    return 1 + size // COST_BYTES


def address_of(connection: Connection) -> str:
    """Return the address that a request came from, as given by a trusted proxy; `unix` for a unix socket."""
    return connection.client.host if connection.client else "unix"


def _anybody(connection: Connection, gateway: Gateway, operation: str) -> str:
    """Return the caller to count on a route without sign-in: a signed-in browser, or an address and the route.

    A flood on one route thus blocks neither the other routes for that address nor a signed-in browser behind it.
    """
    with suppress(UnauthorizedError):
        token = gateway.tokens.known(cookie_of(connection) or "")
        if token is not None:
            return f"{token.token_id} without sign-in"
    return f"{address_of(connection)} {operation}"
