"""A scripted model for Codex and Gemini CLI, on loopback: turn after turn, in the API of each."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, NamedTuple

Json = dict[str, Any]


class Call(NamedTuple):
    """A call of a tool; `text` instead of arguments is a call whose input is no JSON. Codex names some in a namespace."""

    name: str
    arguments: Json
    call_id: str
    text: str | None = None
    namespace: str | None = None


Turn = Sequence[Call]

_USAGE: Final = {
    "input_tokens": 1,
    "input_tokens_details": {"cached_tokens": 0},
    "output_tokens": 1,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 2,
}


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore the error: a killed client breaks its connections."""


class ScriptedModel:
    """A model; `results` are tool results, by the id of the call for Codex, by the tool's name for Gemini CLI.

    `requests` are all requests of the client.
    """

    def __init__(self, *turns: Turn) -> None:
        self._turns = list(turns)
        self._lock = threading.Lock()
        self.results: dict[str, str] = {}
        self.requests: list[Json] = []
        self._server = _Server(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def say_next(self, *turns: Turn) -> None:
        """Replace the remaining turns by these."""
        with self._lock:
            self._turns = list(turns)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _next(self) -> Turn:
        with self._lock:
            return self._turns.pop(0) if self._turns else ()

    def _handler(model) -> type[BaseHTTPRequestHandler]:  # noqa: N805 - the handler has the name `self`
        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: object) -> None:
                pass

            def do_GET(self) -> None:
                self._send("application/json", b'{"object":"list","data":[],"models":[]}')

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                model.requests.append(body)
                if self.path.split("?")[0].endswith("/responses"):
                    model._hear_responses(body)
                    self._send("text/event-stream", b"".join(_responses(model._next())))
                elif "countTokens" in self.path:
                    self._send("application/json", b'{"totalTokens":1}')
                elif "GenerateContent" in self.path or "generateContent" in self.path:
                    model._hear_gemini(body)
                    answer = _gemini(model._next() if body.get("tools") else ())
                    is_stream = "stream" in self.path
                    data = json.dumps(answer).encode()
                    kind = "text/event-stream" if is_stream else "application/json"
                    self._send(kind, b"data: " + data + b"\n\n" if is_stream else data)
                else:
                    self.send_error(404)

            def _send(self, kind: str, data: bytes) -> None:
                self.send_response(200)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

        return Handler

    def _hear_responses(self, body: Json) -> None:
        for item in body.get("input", []):
            if str(item.get("type", "")).endswith("_call_output"):
                self.results[item["call_id"]] = json.dumps(item.get("output"))

    def _hear_gemini(self, body: Json) -> None:
        for content in body.get("contents", []):
            for part in content.get("parts", []):
                if "functionResponse" in part:
                    self.results[part["functionResponse"]["name"]] = json.dumps(part["functionResponse"]["response"])


def _gemini(turn: Turn) -> Json:
    calls: list[Json] = [{"functionCall": {"name": one.name, "args": one.arguments}} for one in turn]
    content = {"role": "model", "parts": calls or [{"text": "Done."}]}
    usage = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
    return {"candidates": [{"index": 0, "content": content, "finishReason": "STOP"}], "usageMetadata": usage}


def _responses(turn: Turn) -> Iterator[bytes]:
    def event(kind: str, **data: Any) -> bytes:
        return f"event: {kind}\ndata: {json.dumps({'type': kind, **data})}\n\n".encode()

    items = [_item(one) for one in turn] or [_said("Done.")]
    response: Json = {"id": "resp_1", "object": "response", "created_at": 1, "status": "in_progress", "output": []}
    yield event("response.created", response=response)
    for index, item in enumerate(items):
        yield event("response.output_item.added", output_index=index, item={**item, "status": "in_progress"})
        yield event("response.output_item.done", output_index=index, item=item)
    yield event("response.completed", response={**response, "status": "completed", "output": items, "usage": _USAGE})


def _said(text: str) -> Json:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "role": "assistant", "id": "msg_1", "status": "completed", "content": content}


def _item(call: Call) -> Json:
    about = {"call_id": call.call_id, "name": call.name, "status": "completed"}
    if call.namespace is not None:
        about["namespace"] = call.namespace
    if call.text is not None:
        return {"type": "custom_tool_call", "id": f"ctc_{call.call_id}", "input": call.text, **about}
    arguments = json.dumps(call.arguments)
    return {"type": "function_call", "id": f"fc_{call.call_id}", "arguments": arguments, **about}
