"""A scripted model that serves OpenAI's chat completions on loopback, one turn after another."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Call = dict[str, Any]
Turn = Sequence[Call]


def use(name: str, arguments: dict[str, Any], call_id: str) -> Call:
    """Return a call of a tool."""
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}


def bash(command: str, call_id: str) -> Call:
    return use("bash", {"command": command, "description": "work"}, call_id)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore the error: a killed client breaks its connections."""


class Model:
    """A model that answers each request with tools by the next of `turns`, and by a last word after them.

    `requests` are all requests of the client.
    """

    def __init__(self, turns: Sequence[Turn]) -> None:
        self._turns = list(turns)
        self._lock = threading.Lock()
        self.results: dict[str, str] = {}
        self.requests: list[dict[str, Any]] = []
        model = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: object) -> None:
                pass

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                model.requests.append(body)
                calls = model.next_turn(body["messages"]) if body.get("tools") else ()
                delta: dict[str, Any] = {"role": "assistant", "content": "" if calls else "Done."}
                if calls:
                    delta["tool_calls"] = [{"index": index, **call} for index, call in enumerate(calls)]
                self._say([({"delta": delta}, None), ({"delta": {}}, "tool_calls" if calls else "stop")])

            def _say(self, choices: Sequence[tuple[dict[str, Any], str | None]]) -> None:
                about = {"id": "chat_1", "object": "chat.completion.chunk", "created": 1, "model": "scripted"}
                chunks = [
                    {**about, "choices": [{"index": 0, "finish_reason": reason, **choice}]}
                    for choice, reason in choices
                ]
                usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
                said = [json.dumps(one) for one in [*chunks, {**about, "choices": [], "usage": usage}]]
                content = "".join(f"data: {one}\n\n" for one in [*said, "[DONE]"]).encode()
                self.send_response(200)
                self.send_header("content-type", "text/event-stream")
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

        self._server = _Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self._thread.start()

    def next_turn(self, messages: Sequence[dict[str, Any]]) -> Turn:
        with self._lock:
            for message in messages:
                if message.get("role") == "tool":
                    self.results[message["tool_call_id"]] = str(message["content"])
            return self._turns.pop(0) if self._turns else ()

    def say_next(self, *turns: Turn) -> None:
        with self._lock:
            self._turns.extend(turns)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
