"""Answers by a request's id alone, as OpenCode's clients give them."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from ledger import Session
from ledger.core.errors import AlreadyAnsweredError, LedgerError, StaleReplyError, UnknownRequestError
from ledger.core.replies import parse_reply
from workers.gateway.gateway import Gateway
from workers.gateway.granting_reach import require_grantable
from workers.gateway.opencode.shapes import ID_PREFIX, REPLIES, ambiguous, bad_request, denied, not_enough, not_found
from workers.gateway.principals import Principal

SHOWN_CHARS: Final = 100

StatusAndBody = tuple[int, Any]
"""Status and body."""


class OpenCodeError(Exception):
    """An error of OpenCode's own server."""

    def __init__(self, status: int, body: Any) -> None:
        super().__init__(status)
        self.answer: StatusAndBody = (status, body)


def read_body(body: bytes, member: str) -> tuple[str, str | None]:
    """Return the answer and the feedback in a body; unknown members are ignored. Raises OpenCodeError."""
    try:
        given = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise OpenCodeError(400, bad_request("Expected JSON", "Body")) from None
    if not isinstance(given, dict):
        raise OpenCodeError(400, bad_request(f"Expected object, got {_shown(given)}"))
    if member not in given:
        raise OpenCodeError(400, bad_request(f'Missing key\n  at ["{member}"]'))
    reply, message = given[member], given.get("message")
    if reply not in REPLIES:
        expected = " | ".join(f'"{one}"' for one in REPLIES)
        raise OpenCodeError(400, bad_request(f'Expected {expected}, got {_shown(reply)}\n  at ["{member}"]'))
    if message is not None and not isinstance(message, str):
        raise OpenCodeError(400, bad_request(f'Expected string, got {_shown(message)}\n  at ["message"]'))
    return reply, message


def _shown(value: Any) -> str:
    return msgspec.json.encode(value).decode()[:SHOWN_CHARS]


async def answer(
    gateway: Gateway,
    principal: Principal,
    request_id: str,
    reply: str,
    message: str | None,
    *,
    session: str | None,
    directory: str | None,
) -> None:
    """Answer a request. Raises OpenCodeError, and what `Session.reply` raises beyond that."""
    found = await _sessions_of(gateway, principal, request_id, session, directory)
    if not found and not request_id.startswith(ID_PREFIX):
        expected = f'Expected a string starting with "{ID_PREFIX}", got {_shown(request_id)}\n  at ["requestID"]'
        raise OpenCodeError(400, bad_request(expected, "Params"))
    if not found:
        raise OpenCodeError(404, not_found(request_id))
    if len(found) > 1:
        raise OpenCodeError(409, ambiguous(request_id, sorted(one.id for one in found)))
    require_grantable(principal, found[0].stream.state, reply)
    try:
        result = await found[0].reply(request_id, parse_reply(reply), message=message or None, actor=principal.actor)
    except UnknownRequestError:
        raise OpenCodeError(404, not_found(request_id)) from None
    except (AlreadyAnsweredError, StaleReplyError) as error:
        # For these clients a settled request does not exist any more; our error adds the reason.
        raise OpenCodeError(404, not_found(request_id, f" ({error.text})")) from None
    if result.outcome is None:
        # `true` would mean that the call runs; the yes is recorded, and the request is still pending.
        raise OpenCodeError(409, not_enough(request_id, result.message or "it waits for more people"))
    if result.outcome == "denied":
        # OpenCode has no such case; `true` would mean that the call runs.
        raise OpenCodeError(409, denied(request_id, result.message or "a rule denies it"))


async def _sessions_of(
    gateway: Gateway, principal: Principal, request_id: str, session: str | None, directory: str | None
) -> list[Session]:
    """Return the sessions in reach that have the request: where it is pending, else the one where it was settled last.

    So the same answer again finds the request that it answered, also where an older session used the id.
    """
    if session is not None:
        named = [session]
    else:
        states = (await gateway.ledger.lookups.of_request(request_id)).rows
        named = [one.session_id for one in states if request_id in one.pending] or [one.session_id for one in states]
    found: list[Session] = []
    for name in named:
        try:
            one = await gateway.session(name, principal)
        except LedgerError as error:
            if error.code not in ("INPUT", "UNKNOWN_SESSION"):
                raise
            continue
        if directory in (None, one.stream.state.cwd):
            found.append(one)
    settled = [(known.at_ms, one) for one in found if (known := one.stream.state.settled.get(request_id)) is not None]
    # Nothing is pending, so nothing can be answered that was not meant.
    return [max(settled, key=lambda each: each[0])[1]] if settled and len(settled) == len(found) else found
