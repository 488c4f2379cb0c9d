"""A simulated OpenCode server on a real socket: its permission lists, events, cascades and faults.

Its behaviour follows recorded transcripts of the real one (tests/data/agents/opencode); the journeys of
`make test-agents` run the same bridge against the real one.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from typing import Any, Final
from urllib.parse import parse_qs

import uvicorn

Row = dict[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

DIRECTORY: Final = "/home/me/shop"


class OpenCodeServer:
    """One process: `stop` and `start` lose the pending requests, as the real one does."""

    def __init__(self) -> None:
        self.sessions: dict[str, Row] = {}
        self.busy: set[str] = set()
        self.pending: dict[str, Row] = {}
        self.questions: dict[str, Row] = {}
        self.answers: dict[str, list[list[str]] | None] = {}
        self.has_questions = True
        self.replies: dict[str, tuple[str, str | None]] = {}
        self.cannot_list = False
        self.parts: list[Row] = []
        """The parts of any message; none where the server has lost them."""
        self.port = 0
        self._streams: set[asyncio.Queue[Row | None]] = set()
        self._serving: asyncio.Task[None] | None = None
        self._server: uvicorn.Server | None = None
        self._count = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def start(self) -> None:
        # asyncio sends small pieces at once (TCP_NODELAY) only on sockets that say that they are TCP.
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", self.port))
        self.port = listener.getsockname()[1]
        config = uvicorn.Config(
            self._app, interface="asgi3", lifespan="off", log_level="critical", timeout_graceful_shutdown=1
        )
        self._server = uvicorn.Server(config)
        self._serving = asyncio.create_task(self._server.serve(sockets=[listener]))

    async def stop(self) -> None:
        """Stop as if killed: pending requests are lost, without an event for them."""
        if self._server is None or self._serving is None:
            return
        self.drop_streams()
        self._server.should_exit = True
        await self._serving
        self._server = self._serving = None
        self.pending.clear()
        self.questions.clear()
        self.busy.clear()

    def drop_streams(self) -> None:
        """End every event stream; readers must reconnect."""
        for stream in self._streams:
            stream.put_nowait(None)

    @property
    def is_followed(self) -> bool:
        return bool(self._streams)

    # --- what an agent does in it

    def ask(self, session: str = "ses_1", pattern: str = "git push", *, parent: str | None = None, **more: Any) -> str:
        """Ask for permission as a tool call does; return the request's id."""
        self._count += 1
        request_id = f"per_{self._count:04}"
        info = {"id": session, "directory": DIRECTORY, "agent": "general" if parent else "build"}
        self.sessions[session] = info | ({"parentID": parent} if parent else {})
        self.busy.add(session)
        request = {
            "id": request_id,
            "sessionID": session,
            "permission": "bash",
            "patterns": [pattern],
            "metadata": {"command": pattern},
            "always": [f"{pattern.split(maxsplit=1)[0]} *"],
            "tool": {"messageID": "msg_1", "callID": f"call_{self._count}"},
            **more,
        }
        self.pending[request_id] = request
        self.publish("permission.asked", request)
        return request_id

    def ask_person(self, session: str = "ses_1", *questions: Row) -> str:
        """Ask as the `question` tool does; return the request's id."""
        self._count += 1
        request_id = f"que_{self._count:04}"
        self.sessions[session] = {"id": session, "directory": DIRECTORY, "agent": "build"}
        self.busy.add(session)
        tool = {"messageID": "msg_1", "callID": f"call_{self._count}"}
        request = {"id": request_id, "sessionID": session, "questions": list(questions), "tool": tool}
        self.questions[request_id] = request
        self.publish("question.asked", request)
        return request_id

    def answer(self, request_id: str, answers: list[list[str]] | None) -> bool:
        """Answer or dismiss a question; return whether it was pending. It has no effect on other questions."""
        request = self.questions.pop(request_id, None)
        if request is None:
            return False
        self.answers[request_id] = answers
        said = {"sessionID": request["sessionID"], "requestID": request_id}
        kind = "question.rejected" if answers is None else "question.replied"
        self.publish(kind, said if answers is None else {**said, "answers": answers})
        return True

    def reply(self, request_id: str, reply: str, message: str | None = None) -> bool:
        """Reply to a request with all of OpenCode's cascades; return whether the request was pending."""
        request = self.pending.pop(request_id, None)
        if request is None:
            return False
        self._take(request, reply, message)
        for other in [one for one in self.pending.values() if one["sessionID"] == request["sessionID"]]:
            covered = reply == "always" and other["always"] == request["always"]
            if reply == "reject" or covered:
                del self.pending[other["id"]]
                self._take(other, reply, None)
        return True

    def _take(self, request: Row, reply: str, message: str | None) -> None:
        self.replies[request["id"]] = (reply, message)
        said = {"sessionID": request["sessionID"], "requestID": request["id"], "reply": reply}
        self.publish("permission.replied", said)

    def tool_ends(self, request_id: str, request: Row, status: str = "completed") -> None:
        part = {"type": "tool", "tool": "bash", "callID": request["tool"]["callID"], "sessionID": request["sessionID"]}
        self.publish("message.part.updated", {"part": {**part, "state": {"status": status, "title": "done"}}})

    def abort(self, session: str) -> None:
        """Abort the session: its requests stay in the list, and no reply is published."""
        self.busy.discard(session)
        self.publish("session.idle", {"sessionID": session})

    def publish(self, kind: str, properties: Row) -> None:
        for stream in self._streams:
            stream.put_nowait({"id": "evt_1", "type": kind, "properties": properties})

    # --- over HTTP

    async def _app(self, scope: Message, receive: Receive, send: Send) -> None:
        path, method = scope["path"], scope["method"]
        directory = parse_qs(scope["query_string"].decode()).get("directory", [DIRECTORY])[0]
        if path in ("/event", "/global/event"):
            await self._follow(send, wrapped=path.startswith("/global"))
        elif path.startswith("/question") and self.has_questions:
            await self._question(send, receive, path, here=directory == DIRECTORY)
        elif method == "POST":
            body = json.loads((await receive())["body"])
            found = self.reply(path.split("/")[2], body["reply"], body.get("message"))
            await _answer(send, 200 if found else 404, found or {"_tag": "PermissionNotFoundError"})
        elif path == "/permission":
            here = list(self.pending.values()) if directory == DIRECTORY else []
            await _answer(send, 400 if self.cannot_list else 200, here)
        elif path == "/session/status":
            await _answer(send, 200, {one: {"type": "busy"} for one in self.busy})
        elif "/message/" in path:
            await _answer(send, 200 if self.parts else 404, {"parts": self.parts})
        elif path == "/path":
            await _answer(send, 200, {"directory": DIRECTORY})
        else:
            info = self.sessions.get(path.removeprefix("/session/"))
            await _answer(send, 404 if info is None else 200, info)

    async def _question(self, send: Send, receive: Receive, path: str, *, here: bool) -> None:
        if path == "/question":
            await _answer(send, 200, list(self.questions.values()) if here else [])
            return
        _, _, request_id, word = path.split("/")
        answers = json.loads((await receive())["body"])["answers"] if word == "reply" else None
        found = self.answer(request_id, answers)
        await _answer(send, 200 if found else 404, found or {"_tag": "QuestionNotFoundError"})

    async def _follow(self, send: Send, *, wrapped: bool) -> None:
        stream: asyncio.Queue[Row | None] = asyncio.Queue()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
        self._streams.add(stream)
        try:
            event: Row | None = {"id": "evt_0", "type": "server.connected", "properties": {}}
            while event is not None:
                said = {"directory": DIRECTORY, "project": "p", "payload": event} if wrapped else event
                content = f"data: {json.dumps(said)}\n\n".encode()
                await send({"type": "http.response.body", "body": content, "more_body": True})
                event = await stream.get()
            with suppress(OSError):
                await send({"type": "http.response.body", "body": b""})
        finally:
            self._streams.discard(stream)


async def _answer(send: Send, status: int, content: Any) -> None:
    headers = [(b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps(content).encode()})
