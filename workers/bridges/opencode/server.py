"""The HTTP API of an OpenCode server: its events, its lists, and answers to its requests."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from typing import Any, Final
from urllib.parse import quote, urlencode

from workers.bridges.opencode.shapes import ENDED, Answers, RequestAsked
from workers.bridges.stdio import parse
from workers.transport.place import ANSWER_SECONDS, BridgeError, ServerAddress, parse_place
from workers.transport.wire import Connections, HttpConnection

EVENT_BYTES_MAX: Final = 16 * 1024 * 1024
"""Limit of one event. OpenCode sends whole diffs and outputs."""

SILENCE_SECONDS: Final = 60.0
"""Time without a byte after which a connection counts as lost: every server writes something each quarter of a minute."""


async def server_sent_events(pieces: AsyncIterator[bytes]) -> AsyncGenerator[dict[str, Any]]:
    """Yield the data of the events of an answer, whose body comes in pieces; what is no JSON object is skipped.

    Raises TimeoutError after `SILENCE_SECONDS` without a byte, and ConnectionError for an event of more than
    `EVENT_BYTES_MAX` bytes.
    """
    data: list[str] = []
    size = 0
    async for line in _lines(pieces):
        size += len(line)
        if size > EVENT_BYTES_MAX:
            raise _too_large()
        if line:
            name, _, value = line.decode("utf-8", "replace").partition(":")
            data += [value.removeprefix(" ")] if name == "data" else []
            continue
        found = parse("\n".join(data).encode())
        if found is not None:
            yield found
        data, size = [], 0


async def _lines(pieces: AsyncIterator[bytes]) -> AsyncGenerator[bytes]:
    rest: list[bytes] = []
    size = 0
    while True:
        try:
            async with asyncio.timeout(SILENCE_SECONDS):
                piece = await anext(pieces)
        except StopAsyncIteration:
            return
        *lines, last = piece.split(b"\n")
        for line in lines:
            yield b"".join([*rest, line]).removesuffix(b"\r")
            rest, size = [], 0
        if last:
            rest.append(last)
            size += len(last)
            if size > EVENT_BYTES_MAX:
                raise _too_large()


def _too_large() -> ConnectionError:
    return ConnectionError(f"a server-sent event takes more than {EVENT_BYTES_MAX} bytes")


FIRST_BYTE_SECONDS: Final = 3.0
"""The time limit for the first byte: a server that is still starting accepts connections and does not answer."""

IDLE_COUNT: Final = 4

_OK = 200
_UNAUTHORIZED = 401


class OpenCode:
    """One server. `password` is OPENCODE_SERVER_PASSWORD of the server, where it has one."""

    def __init__(self, url: str, *, username: str = "opencode", password: str | None = None) -> None:
        """Raise BridgeError for an unsupported URL."""
        self._place = place_of(url)
        self.url = f"{'https' if self._place.tls else 'http'}://{self._place.host}:{self._place.port}"
        self._headers = {"content-type": "application/json", "accept-encoding": "identity"}
        if password:
            secret = base64.b64encode(f"{username}:{password}".encode()).decode()
            self._headers["authorization"] = f"Basic {secret}"
        self._connections = Connections(lambda: self._place, IDLE_COUNT)

    async def close(self) -> None:
        await self._connections.close()

    # --- events

    async def events(self, directory: str | None) -> AsyncGenerator[tuple[Mapping[str, Any], str | None]]:
        """Yield events with their directories; of all directories if none is named.

        Ends when the connection does; the first event is `server.connected`. Raises the errors in `wire.LOST`, BridgeError.
        """
        path = "/global/event" if directory is None else _path("/event", directory)
        connection = await HttpConnection.open(self._place)
        try:
            async with asyncio.timeout(FIRST_BYTE_SECONDS):
                head = await connection.send("GET", path, b"", {**self._headers, "accept": "text/event-stream"})
            self._require_welcome(head.status)
            async with aclosing(server_sent_events(connection.pieces(head))) as found:
                async for message in found:
                    if directory is not None:
                        yield message, directory
                    elif isinstance(payload := message.get("payload"), dict):
                        where = message.get("directory")
                        yield payload, where if isinstance(where, str) else None
        finally:
            await connection.close()

    def _require_welcome(self, status: int) -> None:
        if status == _UNAUTHORIZED:
            raise BridgeError(
                f"opencode at `{self.url}` wants a password: set OPENCODE_SERVER_PASSWORD as for the server"
            )
        if status != _OK:
            raise ConnectionError(f"opencode at `{self.url}` answered with status {status}")

    # --- requests to it

    async def pending(self, directory: str | None) -> list[Any] | None:
        """Return its list of requests; None if it fails (one bad entry makes the whole list fail)."""
        status, found = await self.call("GET", _path("/permission", directory))
        return found if status == _OK and isinstance(found, list) else None

    async def questions(self, directory: str | None) -> list[Any] | None:
        """Return the pending questions of its `question` tool; None if the list fails or the server has no such."""
        status, found = await self.call("GET", _path("/question", directory))
        return found if status == _OK and isinstance(found, list) else None

    async def at_work(self, directory: str | None) -> frozenset[str] | None:
        """Return the busy sessions; None if the server cannot tell."""
        status, found = await self.call("GET", _path("/session/status", directory))
        if status != _OK or not isinstance(found, dict):
            return None
        idle = {one for one, state in found.items() if isinstance(state, Mapping) and state.get("type") == "idle"}
        return frozenset(found.keys() - idle)

    async def session(self, session: str, directory: str | None) -> Mapping[str, Any]:
        """Return its record of a session; empty if it has none."""
        status, found = await self.call("GET", _path(f"/session/{quote(session, safe='')}", directory))
        return found if status == _OK and isinstance(found, dict) else {}

    async def has_ended(self, asked: RequestAsked) -> bool:
        """Return whether the tool call of a request has ended; the request is then listed by mistake."""
        states = [part.get("state") for part in await self._parts_of(asked)]
        return any(isinstance(state, Mapping) and state.get("status") in ENDED for state in states)

    async def call_behind(self, asked: RequestAsked) -> tuple[str, dict[str, Any]] | None:
        """Return the tool and the input of the call that a request is part of; None if the server has no such call.

        Raises the errors in `wire.LOST`.
        """
        for part in await self._parts_of(asked):
            tool, state = part.get("tool"), part.get("state")
            given = state.get("input") if isinstance(state, Mapping) else None
            if isinstance(tool, str) and isinstance(given, dict) and given:
                return tool, given
        return None

    async def _parts_of(self, asked: RequestAsked) -> list[Mapping[str, Any]]:
        if asked.message_id is None:
            return []
        path = f"/session/{quote(asked.session, safe='')}/message/{quote(asked.message_id, safe='')}"
        status, found = await self.call("GET", _path(path, asked.directory))
        parts = found.get("parts") if status == _OK and isinstance(found, dict) else None
        own = parts if isinstance(parts, list) else []
        return [one for one in own if isinstance(one, Mapping) and one.get("callID") == asked.call_id]

    async def own_directory(self) -> str | None:
        """Return the directory it was started in."""
        _, found = await self.call("GET", "/path")
        where = found.get("directory") if isinstance(found, dict) else None
        return where if isinstance(where, str) else None

    async def reply(self, request_id: str, reply: str, message: str | None, directory: str | None) -> int:
        """Answer a request; return the HTTP status."""
        body = {"reply": reply, **({"message": message} if message else {})}
        path = _path(f"/permission/{quote(request_id, safe='')}/reply", directory)
        status, _ = await self.call("POST", path, body)
        return status

    async def answer_question(self, request_id: str, answers: Answers | None, directory: str | None) -> int:
        """Answer a question, or dismiss it; return the HTTP status."""
        path = f"/question/{quote(request_id, safe='')}"
        if answers is None:
            status, _ = await self.call("POST", _path(f"{path}/reject", directory))
        else:
            status, _ = await self.call("POST", _path(f"{path}/reply", directory), {"answers": answers})
        return status

    async def call(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Make one exchange; return the status and the answer's JSON. Raises the errors in `wire.LOST`."""
        payload = b"" if body is None else json.dumps(body).encode()
        async with asyncio.timeout(ANSWER_SECONDS):
            head, content = await self._connections.exchange(method, path, payload, lambda _: self._headers)
        try:
            return head.status, json.loads(content) if content else None
        except ValueError:
            return head.status, None


def place_of(url: str) -> ServerAddress:
    """Parse a server's URL. Raises BridgeError."""
    try:
        place = parse_place(url, None)
    except BridgeError:
        place = None
    if place is None or place.path is not None:
        raise BridgeError(f"`{url}` is not the address of an opencode server; write it like `http://127.0.0.1:4096`")
    return place


def _path(path: str, directory: str | None) -> str:
    return path if directory is None else f"{path}?{urlencode({'directory': directory})}"
