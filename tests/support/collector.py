"""An OTLP/HTTP collector of our own: takes spans as a real one does, and keeps them decoded."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)


class TakenSpan:
    """A span that a collector took, with plain values."""

    def __init__(self, span: Any, resource: dict[str, Any]) -> None:
        self.name: str = span.name
        self.trace_id: str = span.trace_id.hex()
        self.span_id: str = span.span_id.hex()
        self.parent_id: str = span.parent_span_id.hex()
        self.state: str = span.trace_state
        self.kind: int = span.kind
        self.start_ns: int = span.start_time_unix_nano
        self.end_ns: int = span.end_time_unix_nano
        self.attributes: dict[str, Any] = _plain(span.attributes)
        self.events: list[tuple[str, int, dict[str, Any]]] = [
            (one.name, one.time_unix_nano, _plain(one.attributes)) for one in span.events
        ]
        self.status: int = span.status.code
        self.resource = resource

    def __getitem__(self, name: str) -> Any:
        return self.attributes.get(name)


class Collector:
    """Records all spans in order of arrival. `status` is what it answers; `hung` holds answers back until it is set."""

    def __init__(self) -> None:
        self.spans: list[TakenSpan] = []
        self.headers: list[dict[str, str]] = []
        self.bodies: list[bytes] = []
        self.status = 200
        self.tried = 0
        self.answers = threading.Event()
        self.answers.set()
        self.endpoint = ""

    def named(self, request_id: str) -> list[TakenSpan]:
        return [one for one in self.spans if one["permission_ledger.request_id"] == request_id]

    def take(self, body: bytes, headers: dict[str, str]) -> None:
        if headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        self.bodies.append(body)
        self.headers.append(headers)
        for of_resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            resource = _plain(of_resource.resource.attributes)
            for of_scope in of_resource.scope_spans:
                self.spans += [TakenSpan(one, resource) for one in of_scope.spans]


@contextmanager
def collecting() -> Iterator[Collector]:
    """A collector on a port of its own."""
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            collector.tried += 1
            body = self.rfile.read(int(self.headers["content-length"]))
            if collector.status == 200:
                collector.take(body, {name.lower(): value for name, value in self.headers.items()})
            collector.answers.wait()
            content = ExportTraceServiceResponse().SerializeToString() if collector.status == 200 else b""
            self.send_response(collector.status)
            self.send_header("content-type", "application/x-protobuf")
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        collector.endpoint = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, name="collector", kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield collector
        finally:
            collector.answers.set()
            server.shutdown()
            thread.join()


def _plain(attributes: Any) -> dict[str, Any]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in attributes}
