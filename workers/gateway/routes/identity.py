"""Sign-in with a provider or behind a proxy: both redirect to the page's own sign-in, with a one-time code.

A token whose secret nobody has is made too. It has the person's role and ends with the session; the browser's token ends
with it. An administrator sees it in the list of tokens and can revoke it.
"""

from __future__ import annotations

import hmac
from collections.abc import Collection, Mapping
from ipaddress import ip_address
from typing import Annotated, Any, Final

from litestar import Request, get
from litestar.datastructures import Cookie
from litestar.exceptions import NotFoundException
from litestar.params import QueryParameter
from litestar.response import Redirect

from ledger.client.tokens import Tokens
from ledger.core.errors import UnauthorizedError
from ledger.core.events import Actor
from ledger.core.requests import check_name
from ledger.core.times import MINUTE_MS
from ledger.stores.secrets import deployment_secret
from workers.gateway.authentication import TRANSPORT, address_of, at_port
from workers.gateway.descriptions import Row
from workers.gateway.gateway import Gateway, OptionalText, TheGateway
from workers.gateway.principals import ForbiddenError
from workers.gateway.provider_settings import ProxySettings, RoleOfGroup, granted
from workers.gateway.visits import VISIT_SECONDS, Visits


def person_of_proxy(
    scope: Mapping[str, Any], headers: Mapping[str, list[str]], settings: ProxySettings
) -> tuple[str, set[str]]:
    """Return name and groups from the proxy's headers. Raises ForbiddenError for other senders, UnauthorizedError."""
    if not _comes_from(scope, settings):
        raise ForbiddenError("only the proxy that is named in the gateway's settings may name the person who signs in")
    secret = _only(headers, settings.secret_header)
    if secret is None or not hmac.compare_digest(secret.encode(), settings.secret.encode()):
        raise ForbiddenError(
            f"the header `{settings.secret_header}` does not hold the secret of the gateway's settings"
        )
    name = _only(headers, settings.name_header)
    if not name:
        raise UnauthorizedError(f"the proxy does not name the person: one header `{settings.name_header}` is needed")
    groups = _only(headers, settings.groups_header) or ""
    return name, {one.strip() for one in groups.split(",") if one.strip()}


def _comes_from(scope: Mapping[str, Any], settings: ProxySettings) -> bool:
    """Return whether the connection itself comes from the proxy; headers about earlier hops do not count."""
    peer = scope["extensions"][TRANSPORT].get_extra_info("peername")
    if not peer or isinstance(peer, str):
        return settings.by_socket
    address = ip_address(peer[0].partition("%")[0])
    mapped = getattr(address, "ipv4_mapped", None)
    return any((mapped or address) in network for network in settings.networks)


def _only(headers: Mapping[str, list[str]], name: str) -> str | None:
    """Return the value of a header that occurs once: of two, one may come from the person."""
    values = headers.get(name, [])
    return values[0] if len(values) == 1 else None


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


CALLBACK: Final = "/v1/oidc/callback"
COOKIE: Final = "permission_ledger_visit"
HEADERS: Final = {"Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}
"""The responses redirect to addresses that contain a code."""

Browser = Request[Any, Any, Any]
State = Annotated[
    str | None, QueryParameter(name="state", required=False, description="As it was sent to the provider")
]
Error = Annotated[
    str | None, QueryParameter(required=False, description="The provider's reason for not signing somebody in")
]


@get("/v1/sign-in-ways", operation_id="sign_in_ways")
async def sign_in_ways(gateway: TheGateway) -> Row:
    """Return the ways of signing in besides a token: the label of each, None where it is off."""
    settings = gateway.settings
    return {
        "oidc": None if settings.oidc is None else settings.oidc.label,
        "proxy": None if settings.proxy is None else settings.proxy.label,
    }


@get("/v1/oidc/sign-in", operation_id="oidc_sign_in")
async def oidc_sign_in(request: Browser, gateway: TheGateway) -> Redirect:
    """Redirect a browser to the provider, and set a cookie to recognize this browser."""
    provider = _provider(gateway)
    gateway.sign_in_limiter.take(f"{address_of(request)} to the provider")
    visit, cookie = (await _visits(gateway)).begin()
    where = await provider.where_to_sign_in(visit, _callback(gateway))
    return Redirect(where, status_code=303, headers=HEADERS, cookies=[_cookie(request, gateway, cookie, VISIT_SECONDS)])


@get(CALLBACK, operation_id="oidc_callback")
async def oidc_callback(
    request: Browser,
    gateway: TheGateway,
    code: OptionalText = None,
    begun: State = None,
    iss: OptionalText = None,
    error: Error = None,
) -> Redirect:
    """Take a browser back from the provider: only the browser that went there gets a code for the page."""
    provider = _provider(gateway)
    gateway.sign_in_limiter.take(f"{address_of(request)} from the provider")
    visit = (await _visits(gateway)).found(request.cookies.get(_cookie_name(request, gateway)), begun)
    if error is not None or code is None:
        raise UnauthorizedError("the provider did not sign you in; begin again, or sign in with a token")
    person = await provider.who_came_back(visit, _callback(gateway), code, iss)
    settings = provider.settings
    text = await code_for(gateway.tokens, person.name, person.groups, settings.roles, settings.session_ms)
    return _to_the_page(text, cookies=[_cookie(request, gateway, "", 0)])


@get("/v1/oidc/sign-out", operation_id="oidc_sign_out")
async def oidc_sign_out(gateway: TheGateway) -> Redirect:
    """Redirect a browser to the provider's own sign-out. It changes nothing here: `POST /v1/sign-out` does."""
    where = await _provider(gateway).where_to_sign_out(f"{gateway.settings.public_url}/sign-in")
    return Redirect(where or "/sign-in", status_code=303, headers=HEADERS)


@get("/v1/proxy/sign-in", operation_id="proxy_sign_in")
async def proxy_sign_in(request: Browser, gateway: TheGateway) -> Redirect:
    """Sign a browser in as the person that the proxy names."""
    settings = gateway.settings.proxy
    if settings is None:
        raise NotFoundException("no proxy signs people in here")
    headers: dict[str, list[str]] = {}
    for name, value in request.headers.multi_items():
        headers.setdefault(name.lower(), []).append(value)
    name, groups = person_of_proxy(dict(request.scope), headers, settings)
    # Per person: all of these requests come from the proxy's address.
    gateway.sign_in_limiter.take(f"{name} by the proxy")
    return _to_the_page(await code_for(gateway.tokens, name, groups, settings.roles, settings.session_ms))


def _to_the_page(code: str, *, cookies: list[Cookie] | None = None) -> Redirect:
    return Redirect(f"/sign-in?code={code}", status_code=303, headers=HEADERS, cookies=cookies or [])


def _provider(gateway: Gateway) -> Any:
    if gateway.provider is None:
        raise NotFoundException("no provider signs people in here")
    return gateway.provider


async def _visits(gateway: Gateway) -> Visits:
    return Visits(await deployment_secret(gateway.ledger.store))


def _callback(gateway: Gateway) -> str:
    return f"{gateway.settings.public_url}{CALLBACK}"


def _cookie_name(request: Browser, gateway: Gateway) -> str:
    return at_port(f"__Host-{COOKIE}" if gateway.settings.secure else COOKIE, request)


def _cookie(request: Browser, gateway: Gateway, text: str, max_age: int) -> Cookie:
    """Return a cookie that is sent when the provider redirects the browser back from another site: hence lax."""
    return Cookie(
        key=_cookie_name(request, gateway),
        value=text,
        path="/",
        max_age=max_age,
        httponly=True,
        samesite="lax",
        secure=gateway.settings.secure,
    )
