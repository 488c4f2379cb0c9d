"""OpenCode's shapes: requests, events and errors as its own server writes them (version 1.18). Pure."""

from __future__ import annotations

from hashlib import blake2s
from typing import Any, Final

import msgspec

from ledger.session.state import Request, SessionState
from ledger.session.would_run import would_run
from workers.gateway.events.frames import ASKED, Frame
from workers.gateway.events.ring import Item

Row = dict[str, Any]

REPLIES: Final = ("once", "always", "reject")
ID_PREFIX: Final = "per"

_NOT_TO_RUN: Final = ("permission.timeout", "permission.cancelled")


def request_row(session: str, request: Request) -> Row:
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


def _patterns(request: Request) -> list[str]:
    """Return the judged patterns; if they say nothing, the call's text, because the clients show only patterns."""
    says_nothing = all(one in ("*", request.permission) for one in request.patterns)
    found = would_run(request)
    return [*found.texts, *found.beside] if says_nothing else list(request.patterns)


def event_of(frame: Frame) -> Row | None:
    """Return OpenCode's event for a frame; None for frames without one."""
    if frame.request_id is None or frame.session is None:
        return None
    if frame.request is not None:
        return {"id": _event_id(frame), "type": ASKED, "properties": request_row(frame.session, frame.request)}
    if frame.name == "permission.replied":
        # OpenCode's clients have no answer for one session; for whoever shows the request, it is the same.
        reply = frame.reply if frame.reply in REPLIES else "always"
    elif frame.name in _NOT_TO_RUN:
        # Nobody answered and the call will not run: the clients should remove the request from the screen.
        reply = "reject"
    else:
        return None
    properties = {"sessionID": frame.session, "requestID": frame.request_id, "reply": reply}
    return {"id": _event_id(frame), "type": "permission.replied", "properties": properties}


def _event_id(frame: Frame) -> str:
    place = f"{frame.key.name} {frame.at} {frame.part}"
    return f"evt_{blake2s(place.encode(), digest_size=13).hexdigest()}"


def not_found(request_id: str, why: str = "") -> Row:
    message = f"Permission request not found: {request_id}{why}"
    return {"_tag": "PermissionNotFoundError", "requestID": request_id, "message": message}


def ambiguous(request_id: str, sessions: list[str]) -> Row:
    """Return the error for an ambiguous id. OpenCode has no such case: its ids are unique."""
    message = f"Permission request known in several sessions: {request_id}; answer it in one of them"
    return {"_tag": "PermissionAmbiguousError", "requestID": request_id, "message": message, "sessions": sessions}


def denied(request_id: str, why: str) -> Row:
    """Return the error for a denial after the answer. OpenCode has no such case: its rules do not change meanwhile."""
    message = f"Permission request denied by the current rules: {request_id}: {why}"
    return {"_tag": "PermissionDeniedError", "requestID": request_id, "message": message}


def not_enough(request_id: str, why: str) -> Row:
    """Return the error for a yes that more people must give too. OpenCode has no such case: one person answers there."""
    message = f"Permission request needs more people: {request_id}: {why}"
    return {"_tag": "PermissionPendingError", "requestID": request_id, "message": message}


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

    def event(self, item: Item) -> bytes:
        event = None if item.frame is None else event_of(item.frame)
        if event is None or item.frame is None:
            return b""
        if self._is_global:
            event = {"directory": item.frame.directory or "", "project": item.frame.project or "", "payload": event}
        return _line(event)

    def replay(self, state: SessionState, request: Request, lineage: tuple[str, ...]) -> bytes:
        return b""

    def snapshot_end(self, place: str, count: int) -> bytes:
        return b""

    def heartbeat(self, place: str) -> bytes:
        return self._of_server("server.heartbeat")

    def resync(self, reason: str) -> bytes:
        return b""

    def end(self, name: str, reason: str) -> bytes:
        return b""

    def _of_server(self, name: str) -> bytes:
        event: Row = {"type": name, "properties": {}}
        return _line({"payload": event} if self._is_global else event)


def _line(data: Row) -> bytes:
    return b"data: %s\n\n" % msgspec.json.encode(data)
