"""OpenCode's own HTTP surface for permissions, so that its clients can list and answer pending requests.

Requests, events and errors have the shapes that OpenCode's own server writes (version 1.18), not ours.
"""

from __future__ import annotations

from hashlib import blake2s
from typing import Any, Final
from urllib.parse import unquote

import msgspec
from litestar import Request, Response, get, post
from litestar.exceptions import HTTPException
from litestar.types import ASGIApp
from msgspec.structs import replace

from ledger import Session
from ledger.client.results import pending_of
from ledger.core.errors import AlreadyAnsweredError, LedgerError, StaleReplyError, UnknownRequestError
from ledger.core.requests import parse_reply
from ledger.session.state import Request as AskedRequest
from ledger.session.would_run import would_run
from workers.gateway.access import require_grantable
from workers.gateway.events.frames import ASKED
from workers.gateway.events.hints import EventSelection, LogChange
from workers.gateway.gateway import Gateway, Id, TheGateway, ThePrincipal
from workers.gateway.principals import Principal
from workers.gateway.problems import own_fault, status_of

Row = dict[str, Any]

REPLIES: Final = ("once", "always", "reject")
ID_PREFIX: Final = "per"

_NOT_TO_RUN: Final = ("permission.timeout", "permission.cancelled")


def request_row(session: str, request: AskedRequest) -> Row:
    """Return a `PermissionRequest`; `tool` is omitted where there is none."""
    row: Row = {
        "id": request.request_id,
        "sessionID": session,
        "permission": request.permission,
        "patterns": _patterns(request),
        "metadata": request.metadata,
        "always": list(request.always),
    }
    if request.tool is not None:
        row["tool"] = {"messageID": request.tool.message_id, "callID": request.tool.call_id}
    return row


def _patterns(request: AskedRequest) -> list[str]:
    """Return the judged patterns; if they say nothing, the call's text, because the clients show only patterns."""
    says_nothing = all(one in ("*", request.permission) for one in request.patterns)
    found = would_run(request)
    return [*found.texts, *found.others] if says_nothing else list(request.patterns)


def event_of(change: LogChange) -> Row | None:
    """Return OpenCode's event for a change; None for changes without one."""
    if change.request_id is None or change.state is None:
        return None
    request, settled = change.state.find(change.request_id), change.state.settled.get(change.request_id)
    if change.name == ASKED and request is not None:
        detail = getattr(change.event, "detail", None)
        if settled is not None and detail is not None:  # what a settled request no longer has
            request = replace(request, metadata=detail.metadata, input=detail.input)
        return {"id": _event_id(change), "type": ASKED, "properties": request_row(change.state.session_id, request)}
    if change.name == "permission.replied":
        # OpenCode's clients have no answer for one session; for whoever shows the request, it is the same.
        reply = getattr(change.event, "reply", None)
        reply = reply if reply in REPLIES else "always"
    elif change.name in _NOT_TO_RUN:
        # Nobody answered and the call will not run: the clients should remove the request from the screen.
        reply = "reject"
    else:
        return None
    properties = {"sessionID": change.state.session_id, "requestID": change.request_id, "reply": reply}
    return {"id": _event_id(change), "type": "permission.replied", "properties": properties}


def _event_id(change: LogChange) -> str:
    place = f"{change.key.name} {change.at}"
    return f"evt_{blake2s(place.encode(), digest_size=13).hexdigest()}"


def failed(kind: str, request_id: str, said: str, **more: Any) -> Row:
    """Return an error about a request. OpenCode itself has only that of kind `NotFound`."""
    return {"_tag": f"Permission{kind}Error", "requestID": request_id, "message": f"Permission request {said}", **more}


def not_found(request_id: str, why: str = "") -> Row:
    return failed("NotFound", request_id, f"not found: {request_id}{why}")


def bad_request(message: str, kind: str = "Payload") -> Row:
    return {"name": "BadRequest", "data": {"message": message, "kind": kind}}


def failure(code: str, message: str) -> Row:
    """Return any other error."""
    return {"name": code, "data": {"message": message}}


class OpenCodeForm:
    """Events as `data:` lines only; no ids, no replay. With `is_global`, each event also names its directory."""

    def __init__(self, *, is_global: bool) -> None:
        self._is_global = is_global
        self.name = "opencode global" if is_global else "opencode"

    def begin(self) -> bytes:
        return self._of_server("server.connected")

    def change(self, change: LogChange) -> bytes:
        event = event_of(change)
        if event is None or change.state is None:
            return b""
        if self._is_global:
            event = {"directory": change.state.cwd or "", "project": change.project or "", "payload": event}
        return _line(event)

    def heartbeat(self) -> bytes:
        return self._of_server("server.heartbeat")

    def told(self, name: str, reason: str) -> bytes:
        return b""

    def _of_server(self, name: str) -> bytes:
        event: Row = {"type": name, "properties": {}}
        return _line({"payload": event} if self._is_global else event)


def _line(data: Row) -> bytes:
    return b"data: %s\n\n" % msgspec.json.encode(data)


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
        said = f"known in several sessions: {request_id}; answer it in one of them"
        raise OpenCodeError(409, failed("Ambiguous", request_id, said, sessions=sorted(one.id for one in found)))
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
        said = f"needs more people: {request_id}: {result.message or 'it waits for more people'}"
        raise OpenCodeError(409, failed("Pending", request_id, said))
    if result.outcome == "denied":
        # OpenCode has no such case; `true` would mean that the call runs.
        said = f"denied by the current rules: {request_id}: {result.message or 'a rule denies it'}"
        raise OpenCodeError(409, failed("Denied", request_id, said))


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


AnyRequest = Request[Any, Any, Any]

OF_ONE: Final = OpenCodeForm(is_global=False)
OF_ALL: Final = OpenCodeForm(is_global=True)


def refused(_: AnyRequest, error: OpenCodeError) -> Response[Any]:
    status, body = error.answer
    return Response(body, status_code=status)


def ledger_failure(_: AnyRequest, error: LedgerError) -> Response[Any]:
    return Response(failure(error.code, error.text), status_code=status_of(error))


def http_failure(_: AnyRequest, error: HTTPException) -> Response[Any]:
    return Response(bad_request(error.detail, "Query"), status_code=error.status_code)


ERRORS: Final[dict[Any, Any]] = {
    OpenCodeError: refused,
    LedgerError: ledger_failure,
    HTTPException: http_failure,
    Exception: own_fault,
}


@get("/permission", operation_id="opencode_list", include_in_schema=False, exception_handlers=ERRORS)
async def list_permissions(request: AnyRequest, gateway: TheGateway, principal: ThePrincipal) -> list[dict[str, Any]]:
    """Return the pending requests, in order of asking."""
    where = _directory(request)
    rows = [
        (one.request.asked_ms, state.session_id, one.request.version, request_row(state.session_id, one.request))
        for state in await gateway.ledger.waiting.states()
        if principal.reaches_state(state) and where in (None, state.cwd)
        for one in pending_of(state)
    ]
    return [row for *_, row in sorted(rows, key=lambda one: one[:3])]


@post(
    "/permission/{request_id:str}/reply",
    status_code=200,
    operation_id="opencode_reply",
    include_in_schema=False,
    exception_handlers=ERRORS,
)
async def reply(
    request_id: Id,
    request: AnyRequest,
    gateway: TheGateway,
    principal: ThePrincipal,
) -> bool:
    """Answer by the request's id alone."""
    given, message = read_body(await request.body(), "reply")
    where = _directory(request)
    await answer(gateway, _through(principal), request_id, given, message, session=None, directory=where)
    return True


@post(
    "/session/{session:str}/permissions/{request_id:str}",
    status_code=200,
    operation_id="opencode_respond",
    include_in_schema=False,
    exception_handlers=ERRORS,
)
async def respond(
    session: Id,
    request_id: Id,
    request: AnyRequest,
    gateway: TheGateway,
    principal: ThePrincipal,
) -> bool:
    """Answer in a session, by OpenCode's older route."""
    given, _ = read_body(await request.body(), "response")
    where = _directory(request)
    await answer(gateway, _through(principal), request_id, given, None, session=session, directory=where)
    return True


@get("/event", operation_id="opencode_events", include_in_schema=False, exception_handlers=ERRORS)
async def events(request: AnyRequest, gateway: TheGateway, principal: ThePrincipal) -> ASGIApp:
    """Stream requests and answers, from now on."""
    wanted = EventSelection(directory=_directory(request))
    return await gateway.events.of_all(principal, wanted, OF_ONE)


@get("/global/event", operation_id="opencode_global_events", include_in_schema=False, exception_handlers=ERRORS)
async def global_events(gateway: TheGateway, principal: ThePrincipal) -> ASGIApp:
    """Stream requests and answers of all directories, each event with its own."""
    return await gateway.events.of_all(principal, EventSelection(), OF_ALL)


def _directory(request: AnyRequest) -> str | None:
    """Return the directory in the request: a parameter, or a percent-encoded header; OpenCode's clients send either."""
    query: str | None = request.query_params.get("directory")
    return query or unquote(request.headers.get("x-opencode-directory", "")) or None


def _through(principal: Principal) -> Principal:
    return replace(principal, via="opencode")
