"""A scripted model for Claude Code, on loopback: the turn is chosen by the number of its earlier answers."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

Block = dict[str, Any]
Turn = Sequence[Block]

DONE: Final[Turn] = ({"type": "text", "text": "Done."},)


def use(name: str, tool_input: dict[str, Any], call_id: str) -> Block:
    """Return a block with which the model calls a tool."""
    return {"type": "tool_use", "id": call_id, "name": name, "input": tool_input}


def bash(command: str, call_id: str) -> Block:
    return use("Bash", {"command": command, "description": "work"}, call_id)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore the error: a killed client breaks its connections."""


class Model:
    """A model with `turns` of the main agent, and of sub-agents by a text of their prompt. `results` are tool results.

    `conversation` is the last conversation that it received, as JSON.
    """

    def __init__(self, turns: Sequence[Turn], agents: Mapping[str, Sequence[Turn]] | None = None) -> None:
        self.turns = turns
        self.agents = agents or {}
        self.results: dict[str, tuple[bool, str]] = {}
        self.conversation = ""
        model = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: object) -> None:
                pass

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                if not self.path.startswith("/v1/messages") or "count_tokens" in self.path:
                    self._json({"input_tokens": 1})
                elif not body.get("tools"):
                    self._speak(body, [{"type": "text", "text": "a title"}])
                else:
                    model.record(body["messages"])
                    self._speak(body, model.turn_for(body["messages"]))

            def do_GET(self) -> None:
                self._json({"data": [], "has_more": False})

            def do_HEAD(self) -> None:
                self._json({})

            def _json(self, answer: Any) -> None:
                data = json.dumps(answer).encode()
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def _speak(self, body: Any, blocks: Turn) -> None:
                stop = "tool_use" if any(block["type"] == "tool_use" for block in blocks) else "end_turn"
                usage = {"input_tokens": 1, "output_tokens": 1}
                message = {
                    "id": f"msg_{len(body['messages'])}",
                    "type": "message",
                    "role": "assistant",
                    "model": body["model"],
                    "content": list(blocks),
                    "stop_reason": stop,
                    "stop_sequence": None,
                    "usage": usage,
                }
                if not body.get("stream"):
                    self._json(message)
                    return
                data = b"".join(_events(message))
                self.send_response(200)
                self.send_header("content-type", "text/event-stream")
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

        self._server = _Server(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def record(self, messages: Any) -> None:
        self.conversation = json.dumps(messages)
        for message in messages:
            for block in message["content"] if isinstance(message["content"], list) else ():
                if block.get("type") == "tool_result":
                    self.results[block["tool_use_id"]] = (bool(block.get("is_error")), _text(block.get("content")))

    def turn_for(self, messages: Any) -> Turn:
        first = json.dumps(messages[0])
        turns = next((turns for text, turns in self.agents.items() if text in first), self.turns)
        said = sum(1 for message in messages if message["role"] == "assistant")
        return turns[said] if said < len(turns) else DONE


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "".join(block.get("text", "") for block in content or ())


def _events(message: Any) -> Any:
    def event(name: str, **data: Any) -> bytes:
        return f"event: {name}\ndata: {json.dumps({'type': name, **data})}\n\n".encode()

    yield event("message_start", message={**message, "content": [], "stop_reason": None})
    for index, block in enumerate(message["content"]):
        if block["type"] == "text":
            yield event("content_block_start", index=index, content_block={"type": "text", "text": ""})
            yield event("content_block_delta", index=index, delta={"type": "text_delta", "text": block["text"]})
        else:
            yield event("content_block_start", index=index, content_block={**block, "input": {}})
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
            yield event("content_block_delta", index=index, delta=delta)
        yield event("content_block_stop", index=index)
    stopped = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield event("message_delta", delta=stopped, usage={"output_tokens": 1})
    yield event("message_stop")
