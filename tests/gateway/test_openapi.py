"""Whatever is sent to a route of the OpenAPI document, no answer is a fault of ours, and errors have one shape."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, reject, settings
from schemathesis.core.result import Ok

from ledger import Ledger
from tests.gateway.callers import Caller, served
from tests.support.servers import RealServer
from workers.gateway.serving import Address, listen
from workers.gateway.settings import GatewaySettings

KEPT_HEADERS = ("content-type", "idempotency-key", "last-event-id")
EVENT_STREAM = "text/event-stream; charset=utf-8"
"""Such an answer has no end."""

EXAMPLES = 25
"""For each operation; the seed is another one in every run."""


class Background:
    """A gateway in a thread of its own, for callers that block."""

    def __init__(self, url: str, socket: Path) -> None:
        self._url = url
        self._socket = socket
        self.address = ""
        self.token = ""
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))

    def start(self) -> None:
        self._thread.start()
        assert self._ready.wait(10), "the gateway did not come up"

    def end(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        unlimited = GatewaySettings(requests_per_second=1e6, requests_burst=1e6)
        async with Ledger.connect(self._url) as ledger, served(ledger, self._socket, unlimited) as gateway:
            self.token = (await ledger.tokens.create("root", "admin")).text
            await seed(gateway.caller_with(self.token))
            self._ready.set()
            await self._stop.wait()


async def seed(caller: Caller) -> None:
    """So that some of what is guessed exists."""
    await caller.put("/v1/sessions/0", {"project": "0"})
    await caller.ask("0", request_id="0")


@pytest.fixture
def background(server: RealServer, sockets: Path) -> Iterator[Background]:
    one = Background(server.url, sockets / "gateway.sock")
    one.start()
    yield one
    one.end()


def test_no_request_makes_the_gateway_fail(background: Background, sockets: Path) -> None:
    transport = httpx.HTTPTransport(uds=str(sockets / "gateway.sock"))
    headers = {"Authorization": f"Bearer {background.token}"}
    with httpx.Client(transport=transport, base_url="http://gateway", headers=headers) as http:
        document = http.get("/openapi.json").json()
        schema = schemathesis.openapi.from_dict(document)
        failures: list[str] = []
        for found in schema.get_all_operations():
            assert isinstance(found, Ok), found
            failures += _failures_of(found.ok(), http)
    assert failures == []


def _failures_of(operation: Any, http: httpx.Client) -> list[str]:
    failures: list[str] = []

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def probe(case: Any) -> None:
        try:
            with http.stream(**_sent(case)) as answer:
                if answer.headers.get("content-type") != EVENT_STREAM:
                    answer.read()
        except (httpx.LocalProtocolError, httpx.InvalidURL, UnicodeEncodeError):
            reject()  # cannot be sent at all
        if answer.status_code >= 500:
            failures.append(f"{case.method} {case.path}: {answer.status_code} {answer.text[:300]} for {case.body!r}")
        if answer.status_code >= 400 and answer.headers.get("content-type") != "application/problem+json":
            failures.append(f"{case.method} {case.path}: {answer.status_code} is no problem: {answer.text[:100]}")

    given(case=operation.as_strategy())(probe)()
    return failures[:3]


def _sent(case: Any) -> dict[str, Any]:
    """The request as httpx wants it, by the token of the test whatever the document lets guess."""
    sent = case.as_transport_kwargs(base_url="http://gateway", headers={})
    headers = {name: value for name, value in dict(sent["headers"]).items() if name.lower() in KEPT_HEADERS}
    body = {"content": sent["data"]} if sent.get("data") is not None else {"json": sent.get("json")}
    return {"method": sent["method"], "url": sent["url"], "params": sent.get("params"), "headers": headers, **body}


def test_a_listener_is_for_its_own_user_alone(tmp_path: Path) -> None:
    path = tmp_path / "s"
    listener = listen(Address(path=path))
    try:
        assert path.stat().st_mode & 0o777 == 0o600
    finally:
        listener.close()
