"""Tokens, and sign-in of people with them."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from litestar import Request, Response, delete, get, post, put
from litestar.datastructures import Cookie
from litestar.params import JSONBody

from ledger.access.notifications import NotificationChoice
from ledger.client.tokens import Made, token_json
from ledger.core.access_events import QuietHours
from ledger.core.errors import InputError, UnauthorizedError, UnknownTokenError
from ledger.core.times import parse_duration
from ledger.log.reads import AuditedRead
from workers.gateway.access import has_within, require_free_name, require_within
from workers.gateway.asks import IdempotencyKey, derived
from workers.gateway.authentication import (
    COOKIE,
    SECURE_COOKIE,
    address_of,
    at_port,
    browser_token,
    cookie_of,
    find_token,
    require_same_origin,
)
from workers.gateway.bodies import ChoiceBody, DeviceBody, QuietBody, SignInBody, TokenBody
from workers.gateway.descriptions import Row
from workers.gateway.gateway import Gateway, Id, OptionalLimit, OptionalText, TheGateway, ThePrincipal
from workers.gateway.principals import principal_of
from workers.gateway.settings import BROWSER_DAYS
from workers.gateway.signing_in import browser_from_link, browser_from_token, secret_for

DAY_SECONDS = 86_400


@get("/v1/tokens", operation_id="list_tokens")
async def list_tokens(
    gateway: TheGateway, principal: ThePrincipal, cursor: OptionalText = None, limit: OptionalLimit = None
) -> Row:
    """Return the tokens within the caller's own reach, without their secrets: all, or a page of `limit`."""
    found = [one for one in await gateway.tokens.page(cursor) if has_within(principal, one)]
    shown = found[:limit]
    rows = [token_json(one, gateway.now_ms) for one in shown]
    return {"tokens": rows, "cursor": shown[-1].token_id if len(shown) < len(found) else None}


@post("/v1/tokens", status_code=201, operation_id="create_token")
async def create_token(
    data: JSONBody[TokenBody], gateway: TheGateway, principal: ThePrincipal, idempotency_key: IdempotencyKey = None
) -> Row:
    """Make a token within the caller's own reach. Only this response contains its text.

    One under the name of another person is marked with the maker's, and counts as theirs where several are asked.
    """
    require_within(principal, data.projects, data.sessions)
    await require_free_name(gateway, principal, data)
    key = derived(principal, idempotency_key, "token")
    made = await gateway.tokens.create(
        data.name,
        data.role,
        projects=data.projects,
        sessions=data.sessions,
        expires_in_ms=None if data.expires is None else parse_duration(data.expires, "time to live"),
        brings_rules=data.brings_rules,
        owner=data.owner,
        everything=data.everything,
        any_project=data.any_project,
        folders=data.folders,
        token_id=None if key is None else f"tok_{key}",
        secret=None if key is None else await secret_for(gateway, key),
        actor=principal.actor,
    )
    return {**token_json(made.token, gateway.now_ms), "token": made.text}


@delete("/v1/tokens/{token:str}", operation_id="revoke_token")
async def revoke_token(token: Id, gateway: TheGateway, principal: ThePrincipal, reason: OptionalText = None) -> None:
    """Revoke a token within reach and the browsers signed in with it, everywhere at once."""
    known = await gateway.tokens.named(token)
    if known is not None and not has_within(principal, known):
        raise UnknownTokenError(f"there is no token with the id `{token}`", token_id=token)
    await gateway.tokens.revoke(token, reason=reason, actor=principal.actor)


@get("/v1/me", operation_id="read_me")
async def read_me(principal: ThePrincipal) -> Row:
    """Return the caller's name, role and reach."""
    return {
        "name": principal.name,
        "role": principal.role,
        "token_id": principal.token_id,
        "projects": list(principal.projects),
        "sessions": list(principal.sessions),
        "brings_rules": principal.brings_rules,
        "own_sessions": principal.bounds.own is not None,
        "owner": principal.owner,
        "made_by": principal.made_by,
        "via": principal.via,
    }


@post("/v1/sign-in", status_code=200, operation_id="sign_in")
async def sign_in(data: JSONBody[SignInBody], request: Request[Any, Any, Any], gateway: TheGateway) -> Response[Row]:
    """Sign a browser in with a token or a one-time code. Its cookie ends with the token.

    The cookie counts only together with `proof`, which only this response contains: the page keeps it in the storage of
    its origin and sends it with every call as the header `Permission-Ledger-Proof`. Only this route uses a code up, not
    fetching its link: mail and chat programs fetch links in advance.
    """
    require_same_origin(request, gateway)
    made = await _browser_token(request, gateway, data)
    token, address = made.token, address_of(request)
    gateway.reads.note(
        AuditedRead(
            kind="sign_in", name=token.name, role=token.role, token_id=token.token_id, via="inbox", address=address
        )
    )
    row = {"name": made.token.name, "role": made.token.role, "proof": made.proof}
    # The origin was found to be ours. Over TLS the cookie is kept to it; on this machine there may be no TLS.
    is_secure = request.headers.get("origin", gateway.settings.public_url).startswith("https:")
    return Response(row, cookies=[_cookie(request, made.text, is_secure=is_secure)])


@post("/v1/sign-out", status_code=204, operation_id="sign_out")
async def sign_out(request: Request[Any, Any, Any], gateway: TheGateway) -> Response[None]:
    """End this browser's token and its cookie. Without the proof of the sign-in, only the cookie is removed."""
    require_same_origin(request, gateway)
    if cookie_of(request) is not None:
        with suppress(UnauthorizedError):
            token = await browser_token(request, gateway)
            await gateway.tokens.revoke(token.token_id, reason="signed out", actor=principal_of(token, "inbox").actor)
    gone = [_cookie(request, "", is_secure=is_secure, max_age=0) for is_secure in (False, True)]
    return Response(None, status_code=204, cookies=gone)


async def _browser_token(request: Request[Any, Any, Any], gateway: Gateway, data: SignInBody) -> Made:
    given = [text for text in (data.token, data.code) if text is not None]
    if len(given) != 1:
        raise InputError("give either `token` or `code`")
    token = await find_token(request, gateway, given[0].strip())
    # Each sign-in makes a token: a limit keeps its owner from filling the log, and affects nobody else's sign-in.
    gateway.sign_in_limiter.take(token.token_id)
    return await (browser_from_link if data.token is None else browser_from_token)(gateway, token)


def _cookie(
    request: Request[Any, Any, Any], text: str, *, is_secure: bool, max_age: int = BROWSER_DAYS * DAY_SECONDS
) -> Cookie:
    """Return a cookie for this host only, never for scripts, never sent from another site's page."""
    return Cookie(
        key=at_port(SECURE_COOKIE if is_secure else COOKIE, request),
        value=text,
        path="/",
        max_age=max_age,
        httponly=True,
        samesite="strict",
        secure=is_secure,
    )


@get("/v1/notifications", operation_id="read_notifications")
async def read_notifications(gateway: TheGateway, principal: ThePrincipal) -> Row:
    """Return the caller's devices and choices, and whether this gateway sends push messages."""
    return await gateway.notifications.described(principal)


@put("/v1/notifications", operation_id="choose_notifications")
async def choose_notifications(data: JSONBody[ChoiceBody], gateway: TheGateway, principal: ThePrincipal) -> Row:
    """Replace the caller's quiet hours and muted services; from a signed-in browser only."""
    choice = NotificationChoice(quiet=None if data.quiet is None else _quiet(data.quiet), muted=tuple(data.muted))
    return await gateway.notifications.choose(principal, choice)


@post("/v1/notifications/devices", status_code=201, operation_id="subscribe_device")
async def subscribe_device(data: JSONBody[DeviceBody], gateway: TheGateway, principal: ThePrincipal) -> Row:
    """Register the caller's browser for push messages, or renew it; from a signed-in browser only."""
    return await gateway.notifications.subscribe(
        principal, data.name, data.endpoint, data.keys.p256dh, data.keys.auth, replaces=data.replaces
    )


@post("/v1/notifications/devices/{device:str}/test", status_code=200, operation_id="test_device")
async def test_device(device: Id, gateway: TheGateway, principal: ThePrincipal) -> Row:
    """Send a test message to one of the caller's devices: `accepted`, `gone` or `failed`."""
    return await gateway.notifications.test(principal, device)


@delete("/v1/notifications/devices/{device:str}", status_code=204, operation_id="remove_device")
async def remove_device(device: Id, gateway: TheGateway, principal: ThePrincipal) -> None:
    """End push messages on one of the caller's devices."""
    await gateway.notifications.remove(principal, device)


def _quiet(body: QuietBody) -> QuietHours:
    return QuietHours(
        begin=_minute(body.begin), until=_minute(body.until), zone=body.zone, days=tuple(body.days), grave=body.grave
    )


def _minute(text: str) -> int:
    """Return the minute of the day of a time, whose form the body has checked."""
    hours, _, minutes = text.partition(":")
    return int(hours) * 60 + int(minutes)
