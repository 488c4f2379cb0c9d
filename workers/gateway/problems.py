"""Errors as problem details (RFC 9457): one shape for all, with the ledger's own code."""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import Any, Final

from litestar import Request, Response
from litestar.exceptions import HTTPException, MethodNotAllowedException, NotFoundException, ValidationException

from ledger.core.errors import LedgerError
from workers.gateway.authentication import address_of
from workers.gateway.quotas import RateLimitedError
from workers.gateway.settings import BODY_BYTES_MAX

log = logging.getLogger(__name__)

PROBLEM_JSON: Final = "application/problem+json"

_CODES_BY_STATUS: Final = {
    401: "UNAUTHORIZED SIGN_IN_AGAIN",
    403: "WIDER DEMAND_NOT_MET PASSKEY_REQUIRED PASSKEY_REFUSED LINK_REPLY FORBIDDEN RULES_NOT_YOURS CSRF",
    404: (
        "UNKNOWN_REQUEST NO_INDEX UNKNOWN_GRANT UNKNOWN_SESSION UNKNOWN_TOKEN UNKNOWN_PASSKEY UNKNOWN_DEVICE BAD_LINK"
    ),
    409: (
        "OUTDATED_RULES RULES_DIFFER PROJECT_RULES_DIFFER DIFFERENT_REQUEST ALREADY_ANSWERED ALREADY_CLAIMED "
        "REOPENED STILL_PENDING DENIED REJECTED CORRECTED EXPIRED CANCELLED SEALED DIGEST_MISMATCH "
        "PUSH_UNAVAILABLE SESSION_CLOSED NOT_EXTENDABLE"
    ),
    410: "REDACTED PERMISSION_STALE LINK_EXPIRED LINK_ENDED",
    422: "INPUT POLICY EDIT_DENIED NOT_COVERED TOO_COSTLY",
    423: "FROZEN NO_INPUT_LOCK",
    428: "OPERANDS_WANTED",
    429: "RATE_LIMITED BUSY QUOTA",
    500: "DAMAGED NEWER_SCHEMA RULES_UNREADABLE",
    502: "PROVIDER",
    503: "UNREACHABLE IN_DOUBT SETUP ARCHIVE",
}

STATUS: Final = {code: status for status, codes in _CODES_BY_STATUS.items() for code in codes.split()}
"""The status of each code; `docs/reference/http.md` lists them for callers."""

STATUS_OF_HTTP: Final[dict[str, int]] = {
    "MALFORMED": 400,
    "NOT_FOUND": 404,
    "METHOD_NOT_ALLOWED": 405,
    "TIMEOUT": 408,
    "TOO_LARGE": 413,
    "UNSUPPORTED_MEDIA_TYPE": 415,
    "WRONG_HOST": 421,
    "HEAD_TOO_LARGE": 431,
}
"""The code for each status that the framework sets before a route runs."""

_CODES: Final = {status: code for code, status in STATUS_OF_HTTP.items()}

_OF_CODE: Final = {
    "NOT_FOUND": "there is no such address here; `/openapi.json` lists them",
    "METHOD_NOT_ALLOWED": "this address accepts other methods; the header `Allow` lists them",
    "TOO_LARGE": f"the body is larger than {BODY_BYTES_MAX} bytes",
}
"""Sentences for statuses for which the framework has none."""


def status_of(error: LedgerError) -> int:
    return STATUS.get(error.code, 500)


def ledger_problem(_: Request[Any, Any, Any], error: LedgerError) -> Response[dict[str, Any]]:
    """Return the response for an error of the ledger or the gateway."""
    status = status_of(error)
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        log.warning("%s: %s", error.code, error.text)
    body = error.as_json()
    body.pop("error")
    headers = {"Retry-After": str(error.data["retry_after"])} if "retry_after" in error.data else {}
    if status == HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = "Bearer"
    return _problem(status, error.code, error.text, body, headers)


def http_problem(request: Request[Any, Any, Any], error: HTTPException) -> Response[dict[str, Any]]:
    """Return the response for an error of the framework: unknown route, malformed body."""
    if isinstance(error, NotFoundException | MethodNotAllowedException):
        try:
            # An address without a route has no guard.
            request.app.state.gateway.limiter.take(f"{address_of(request)} unknown")
        except RateLimitedError as limited:
            return ledger_problem(request, limited)
    status, code = error.status_code, _CODES.get(error.status_code, "HTTP")
    if isinstance(error, ValidationException):
        status, code = 422, "INPUT"
    reasons = list(error.extra) if isinstance(error.extra, list) else []
    detail = _what_is_wrong(reasons) or _OF_CODE.get(code) or _lower(error.detail)
    return _problem(status, code, detail, {"reasons": reasons}, dict(error.headers or {}))


def _what_is_wrong(reasons: list[Any]) -> str:
    """Return the framework's findings on one line: each member and what is wrong with it."""
    found = [one for one in reasons if isinstance(one, dict)]
    # The framework calls the whole body `data`.
    where = [str(one.get("key", "")).removeprefix("data").removeprefix(".") or "the body" for one in found]
    return "; ".join(f"{place}: {_lower(str(one.get('message', '')))}" for place, one in zip(where, found, strict=True))


def unreadable(_: Request[Any, Any, Any], error: Exception) -> Response[dict[str, Any]]:
    """Return the response for a body that the decoder rejects by itself: no UTF-8, or unbounded nesting."""
    why = "nested too deeply" if isinstance(error, RecursionError) else "not valid UTF-8"
    return _problem(400, "MALFORMED", f"the body is {why}", {}, {})


def own_fault(request: Request[Any, Any, Any], error: Exception) -> Response[dict[str, Any]]:
    """Return the response for an internal error without details, which are logged.

    The log has the route, never the address itself: an answer link or a sign-in code may be part of it.
    """
    route = request.scope.get("path_template") or "an unknown route"
    log.error("%s %s failed", request.method, route, exc_info=error)
    return _problem(500, "INTERNAL", "the gateway failed; its log says why", {}, {})


def _problem(
    status: int, code: str, detail: str, members: dict[str, Any], headers: dict[str, str]
) -> Response[dict[str, Any]]:
    body = {**_body(status, code, detail), **members, "code": code}
    return Response(body, status_code=status, media_type=PROBLEM_JSON, headers=headers)


def problem_body(code: str, detail: str) -> tuple[HTTPStatus, dict[str, Any]]:
    """Return status and body for a refusal before there is a request."""
    status = HTTPStatus(STATUS_OF_HTTP[code])
    return status, _body(status, code, detail)


def _body(status: int, code: str, detail: str) -> dict[str, Any]:
    return {
        "type": f"urn:permission-ledger:error:{code.lower().replace('_', '-')}",
        "title": HTTPStatus(status).phrase,
        "status": int(status),
        "detail": detail,
        "code": code,
        "request_id": None,
        "session": None,
        "reasons": [],
        "agent": "continue",
    }


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:].rstrip(".")
