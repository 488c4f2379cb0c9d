"""Passkeys of the signed-in person, and challenges for answers that one of them must sign."""

from __future__ import annotations

from typing import Any

import msgspec
from litestar import Request, get, post
from litestar.params import JSONBody

from ledger.access.passkey_checks import base64url, belongs_to
from ledger.access.passkeys import passkey_json
from ledger.client.passkeys import Challenge
from ledger.core.addresses import split_address
from ledger.core.errors import InputError, UnknownPasskeyError
from ledger.core.event_shapes import Signed
from ledger.core.requests import check_edited, grant_bounds, parse_answer
from ledger.core.times import parse_duration
from ledger.session.commands import GivenReply
from workers.gateway.bodies import (
    AnswerChallengeBody,
    PasskeyBody,
    PasskeyChallengeBody,
    RemovePasskeyBody,
    SignedBody,
)
from workers.gateway.descriptions import Row
from workers.gateway.gateway import Gateway, Id, TheGateway, ThePrincipal

AnyRequest = Request[Any, Any, Any]


@get("/v1/passkeys", operation_id="list_passkeys")
async def list_passkeys(gateway: TheGateway, principal: ThePrincipal, request: AnyRequest) -> Row:
    """Return the caller's passkeys, and the address at which passkeys work (`at`); null where this address works."""
    rows = [passkey_json(one) for one in await gateway.ledger.passkeys.of(principal.name)]
    return {"passkeys": rows, "at": _better_address(request)}


@post("/v1/passkeys/challenge", status_code=200, operation_id="challenge_passkey")
async def challenge_passkey(
    data: JSONBody[PasskeyChallengeBody], gateway: TheGateway, principal: ThePrincipal, request: AnyRequest
) -> Row:
    """Return the challenge with which a passkey is made, or that of an existing one's consent to register or remove one."""
    if data.action == "register":
        principal.require_own_name("a passkey")
    rp_id, origin = site_of(request, gateway)
    passkeys, made = gateway.ledger.passkeys, None
    if data.made is not None:
        given = msgspec.structs.asdict(data.made)
        made = await passkeys.made(principal.name, **given, rp_id=rp_id, origin=origin)
    challenge = await passkeys.enrolment_challenge(principal.name, data.action, data.credential_id, made=made)
    return _challenge_row(challenge, rp_id)


@post("/v1/passkeys", status_code=201, operation_id="register_passkey")
async def register_passkey(
    data: JSONBody[PasskeyBody], gateway: TheGateway, principal: ThePrincipal, request: AnyRequest
) -> Row:
    """Register a passkey; a person who has one consents to this one with it."""
    principal.require_own_name("a passkey")
    rp_id, origin = site_of(request, gateway)
    made = await gateway.ledger.passkeys.register(
        principal.name,
        data.name,
        data.response,
        nonce=data.nonce,
        until_ms=data.until_ms,
        rp_id=rp_id,
        origin=origin,
        consent=signed_at(data.consent, request, gateway),
        token_id=principal.token_id,
        actor=principal.actor,
    )
    return passkey_json(made)


@post("/v1/passkeys/{passkey:str}/remove", status_code=200, operation_id="remove_passkey")
async def remove_passkey(
    passkey: Id,
    data: JSONBody[RemovePasskeyBody],
    gateway: TheGateway,
    principal: ThePrincipal,
    request: AnyRequest,
) -> Row:
    """Remove a passkey of the caller; consent needs any one of theirs."""
    if passkey not in {one.credential_id for one in await gateway.ledger.passkeys.of(principal.name)}:
        raise UnknownPasskeyError("you have no such passkey", credential_id=passkey)
    consent = signed_at(data.consent, request, gateway)
    return passkey_json(await gateway.ledger.passkeys.remove(passkey, consent=consent, actor=principal.actor))


@post("/v1/sessions/{session:str}/asks/{request_id:str}/challenge", status_code=200, operation_id="challenge_answer")
async def challenge_answer(
    session: Id,
    request_id: Id,
    data: JSONBody[AnswerChallengeBody],
    gateway: TheGateway,
    principal: ThePrincipal,
    request: AnyRequest,
) -> Row:
    """Return the challenge for this answer, which a passkey of the caller must sign; valid once, for five minutes."""
    found = await gateway.session(session, principal, fresh=True)
    reply, message = parse_answer(data.reply, data.message)
    rp_id, _ = site_of(request, gateway)
    challenge = await gateway.ledger.passkeys.answer_challenge(
        found.stream.state,
        request_id,
        GivenReply(
            reply=reply,
            message=message,
            updated_input=data.updated_input,
            bounds=grant_bounds(
                None if data.expires is None else parse_duration(data.expires, "time to live"), data.uses
            ),
            patterns=None if data.patterns is None else check_edited(data.patterns),
        ),
        person=principal.name,
    )
    return _challenge_row(challenge, rp_id)


def site_of(request: AnyRequest, gateway: Gateway) -> tuple[str, str]:
    """Return relying party and origin of the page that sends this. Raises InputError where passkeys cannot work."""
    origin = request.headers.get("origin")
    if origin is None:
        raise InputError("a passkey signs in the inbox, in a browser; open it there")
    rp_id = split_address(origin).hostname or ""
    if origin not in gateway.passkey_origins or not belongs_to(origin, rp_id):
        places = sorted(one for one in gateway.passkey_origins if belongs_to(one, split_address(one).hostname or ""))
        where = f"open {' or '.join(places)}" if places else "serve the inbox at an https:// address with a name"
        raise InputError(
            f"passkeys do not count at `{origin}`: {where}; if it is an address of this gateway at which browsers have "
            f"passkeys, start it with `--host {origin}`"
        )
    return rp_id, origin


def signed_at(body: SignedBody | None, request: AnyRequest, gateway: Gateway) -> Signed | None:
    """Return the challenge that a passkey signed on the page that sends this. Raises InputError."""
    if body is None:
        return None
    rp_id, origin = site_of(request, gateway)
    return Signed(assertion=body.assertion, nonce=body.nonce, until_ms=body.until_ms, rp_id=rp_id, origin=origin)


def _better_address(request: AnyRequest) -> str | None:
    """Return this page's address at `localhost` if it was opened by an IP address, where passkeys do not work."""
    host = request.headers.get("host", "")
    parts = split_address(f"//{host}")
    if parts.hostname not in ("127.0.0.1", "::1"):
        return None
    return f"http://localhost:{parts.port}/" if parts.port else "http://localhost/"


def _challenge_row(challenge: Challenge, rp_id: str) -> Row:
    own = [one.credential_id for one in challenge.passkeys if one.rp_id == rp_id]
    return {
        "challenge": base64url(challenge.bytes),
        "nonce": challenge.claims.nonce,
        "until_ms": challenge.claims.until_ms,
        "rp_id": rp_id,
        "person": challenge.claims.person,
        "claims": msgspec.to_builtins(challenge.claims),
        "passkeys": own,
    }
