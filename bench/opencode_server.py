"""A stand-in for `opencode serve` with the parts a bridge needs: an event stream, empty lists, and timed answers."""

from __future__ import annotations

import asyncio
import json
import socket
from contextlib import suppress
from time import perf_counter
from typing import Any, Final

DIRECTORY: Final = "/tmp"
SESSION: Final = "ses_bench"


class OpenCodeServer:
    """One session, which asks on demand."""

    def __init__(self) -> None:
        self._pending: dict[str, Any] = {}
        self._replied: dict[str, asyncio.Future[str]] = {}
        self._listens = asyncio.Event()
        self._stream: asyncio.StreamWriter | None = None
        self._server: asyncio.Server | None = None
        self.url = ""

    async def start(self) -> None:
        # asyncio sends small pieces at once (TCP_NODELAY) only on sockets that say that they are TCP.
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listener.bind(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        self._server = await asyncio.start_server(self._serve, sock=listener)

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        if self._stream is not None:
            self._stream.close()

    async def followed(self) -> None:
        """Wait until a bridge follows the events."""
        await self._listens.wait()

    async def ask(self, number: int) -> float:
        """Ask for a permission; return the time until the answer arrived (ms). It must be `once`."""
        request_id = f"per_{number:05}"
        command = f"git status {number}"
        self._pending[request_id] = {
            "id": request_id,
            "sessionID": SESSION,
            "permission": "bash",
            "patterns": [command],
            "metadata": {"command": command},
            "always": [],
            "tool": {"messageID": "msg_1", "callID": f"call_{number}"},
        }
        replied = self._replied[request_id] = asyncio.get_running_loop().create_future()
        since = perf_counter()
        self._publish("permission.asked", self._pending[request_id])
        reply = await replied
        took = (perf_counter() - since) * 1000
        assert reply == "once", reply
        self._publish("permission.replied", {"sessionID": SESSION, "requestID": request_id, "reply": reply})
        return took

    def _publish(self, kind: str, properties: dict[str, Any]) -> None:
        assert self._stream is not None
        event = {"directory": DIRECTORY, "payload": {"id": "evt_1", "type": kind, "properties": properties}}
        data = f"data: {json.dumps(event)}\n\n".encode()
        self._stream.write(b"%x\r\n%s\r\n" % (len(data), data))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                length = next((line.split(":")[1] for line in head.split("\r\n") if "content-length:" in line), "0")
                body = await reader.readexactly(int(length))
                path = head.split(" ", 2)[1].partition("?")[0]
                if path == "/global/event":
                    writer.write(
                        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
                    )
                    self._stream = writer
                    self._publish("server.connected", {})
                    self._listens.set()
                    return
                answer = json.dumps(self._answer(path, body)).encode()
                lines = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(answer)
                writer.write(lines + answer)

    def _answer(self, path: str, body: bytes) -> Any:
        if path.endswith("/reply"):
            request_id = path.split("/")[2]
            del self._pending[request_id]
            self._replied[request_id].set_result(json.loads(body)["reply"])
            return True
        answers: dict[str, Any] = {
            "/path": {"directory": DIRECTORY},
            "/permission": list(self._pending.values()),
            "/session/status": {SESSION: {"type": "busy"}},
            f"/session/{SESSION}": {"id": SESSION, "directory": DIRECTORY},
        }
        return answers.get(path, [])
