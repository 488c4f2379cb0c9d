"""OpenCode's routes. Their errors have OpenCode's shapes, not ours."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import unquote

from litestar import Request, Response, get, post
from litestar.exceptions import HTTPException
from litestar.types import ASGIApp
from msgspec.structs import replace

from ledger.client.results import pending_of
from ledger.core.errors import LedgerError
from workers.gateway.events.audience import EventSelection
from workers.gateway.opencode.replies import OpenCodeError, answer, read_body
from workers.gateway.opencode.shapes import OpenCodeForm, bad_request, failure, request_row
from workers.gateway.parameters import Id, TheGateway, ThePrincipal
from workers.gateway.principals import Principal
from workers.gateway.problems import own_fault, status_of

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
    return await gateway.events.from_now(principal, wanted, OF_ONE)


@get("/global/event", operation_id="opencode_global_events", include_in_schema=False, exception_handlers=ERRORS)
async def global_events(gateway: TheGateway, principal: ThePrincipal) -> ASGIApp:
    """Stream requests and answers of all directories, each event with its own."""
    return await gateway.events.from_now(principal, EventSelection(), OF_ALL)


def _directory(request: AnyRequest) -> str | None:
    """Return the directory in the request: a parameter, or a percent-encoded header; OpenCode's clients send either."""
    query: str | None = request.query_params.get("directory")
    return query or unquote(request.headers.get("x-opencode-directory", "")) or None


def _through(principal: Principal) -> Principal:
    return replace(principal, via="opencode")


HANDLERS: list[Any] = [list_permissions, reply, respond, events, global_events]
