"""A page that an agent serves on another port of the approver's machine, with a record of what its visitors send."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http.cookies import SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

WORKER = """
self.addEventListener("message", async ({ data: { url, init }, ports: [port] }) => {
  try {
    const response = await fetch(url, init);
    port.postMessage(await response.text());
  } catch (error) {
    port.postMessage("");
  }
});
self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));
"""


class Preview:
    """A server of the agent; `planted` is a cookie that it sets for the whole host."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.planted: str | None = None
        self.cookies: dict[str, str] = {}
        """Cookies that browsers have sent."""


@contextmanager
def preview() -> Iterator[Preview]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            sent = SimpleCookie(self.headers.get("Cookie", ""))
            served.cookies.update({name: morsel.value for name, morsel in sent.items()})
            is_worker = self.path == "/worker.js"
            body = (WORKER if is_worker else "<!doctype html><title>Preview</title><h1>Preview</h1>").encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/javascript" if is_worker else "text/html")
            self.send_header("Content-Length", str(len(body)))
            if served.planted is not None:
                self.send_header("Set-Cookie", f"{served.planted}; Path=/; HttpOnly; SameSite=Strict")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the standard library's name
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        served = Preview(f"http://127.0.0.1:{server.server_port}")
        serving = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        serving.start()
        try:
            yield served
        finally:
            server.shutdown()
            serving.join()
