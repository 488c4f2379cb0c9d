"""Generated requests to every route of the OpenAPI document: no answer is a server error, and errors have one shape."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import Phase, given, reject, settings
from schemathesis.core.result import Ok

from ledger import Ledger
from tests.gateway.callers import Caller, served
from tests.support import profile
from tests.support.servers import NOT_DURABLE, RealServer
from tests.support.waiting import TIMEOUT_S
from workers.gateway.access import ACCESS
from workers.gateway.server import ListenAddress, listen
from workers.gateway.settings import GatewaySettings

KEPT_HEADERS = ("content-type", "idempotency-key", "last-event-id")
EVENT_STREAM = "text/event-stream; charset=utf-8"
"""Such an answer has no end."""

EXAMPLES = 25
WAIT_S = 0.1
"""For each operation; the seed is another one in every run."""


UNDOCUMENTED = (
    "answer_by_link",
    "inbox_file",
    "inbox_page",
    "openapi",
    "opencode_events",
    "opencode_global_events",
    "opencode_list",
    "opencode_reply",
    "opencode_respond",
    "service_worker",
    "show_answer",
)
"""Pages, and the routes of OpenCode, whose document is its own."""

GUESSED = sorted({*ACCESS} - {*UNDOCUMENTED})


class Background:
    """A gateway in a thread of its own, for callers that block."""

    def __init__(self, url: str, socket: Path) -> None:
        self._url = url
        self.socket = socket
        self.address = ""
        self.token = ""
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))

    def start(self) -> None:
        self._thread.start()
        assert self._ready.wait(TIMEOUT_S), "the gateway did not come up"

    def end(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        unlimited = GatewaySettings(requests_per_second=1e6, requests_burst=1e6)
        async with Ledger.connect(self._url) as ledger, served(ledger, self.socket, unlimited) as gateway:
            self.token = (await ledger.tokens.create("root", "admin")).text
            await seed(gateway.caller_with(self.token))
            self._ready.set()
            await self._stop.wait()


async def seed(caller: Caller) -> None:
    """Create objects, so that some generated ids exist."""
    await caller.put("/v1/sessions/0", {"project": "0"})
    await caller.ask("0", request_id="0")


@pytest.fixture(scope="module")
def background(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Background]:
    server = RealServer(tmp_path_factory.mktemp("guessed-at"), options=NOT_DURABLE)
    folder = Path(tempfile.mkdtemp(prefix="pl-gw-"))  # the path of a socket must be short
    server.start()
    one = Background(server.url, folder / "gateway.sock")
    one.start()
    yield one
    one.end()
    server.remove()
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def http(background: Background) -> Iterator[httpx.Client]:
    transport = httpx.HTTPTransport(uds=str(background.socket))
    headers = {"Authorization": f"Bearer {background.token}"}
    with httpx.Client(transport=transport, base_url="http://gateway", headers=headers, timeout=TIMEOUT_S) as client:
        yield client


@pytest.fixture(scope="module")
def operations(http: httpx.Client) -> dict[str, list[Any]]:
    """The operations of the served document by name; a name may stand for several routes."""
    document = http.get("/openapi.json").json()
    found: dict[str, list[Any]] = {}
    for one in schemathesis.openapi.from_dict(document).get_all_operations():
        assert isinstance(one, Ok), one
        operation = one.ok()
        name = document["paths"][operation.path][operation.method.lower()]["operationId"]
        found.setdefault(name, []).append(operation)
    return found


def test_every_documented_operation_is_guessed_at(operations: dict[str, list[Any]]) -> None:
    assert {*operations} == {*GUESSED}


@pytest.mark.slow
@pytest.mark.parametrize("name", GUESSED)
def test_no_request_makes_the_gateway_fail(name: str, operations: dict[str, list[Any]], http: httpx.Client) -> None:
    failures = [line for operation in operations[name] for line in _failures_of(operation, http)]
    assert failures == []


def _failures_of(operation: Any, http: httpx.Client) -> list[str]:
    failures: list[str] = []

    @settings(profile.GUESSES, max_examples=EXAMPLES, database=None, phases=[Phase.explicit, Phase.generate])
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
    """The request for httpx, always with the test's token."""
    sent = case.as_transport_kwargs(base_url="http://gateway", headers={})
    headers = {name: value for name, value in dict(sent["headers"]).items() if name.lower() in KEPT_HEADERS}
    body = {"content": sent["data"]} if sent.get("data") is not None else {"json": sent.get("json")}
    params = _impatient(dict(sent.get("params") or {}))
    return {"method": sent["method"], "url": sent["url"], "params": params, "headers": headers, **body}


def _impatient(params: dict[str, Any]) -> dict[str, Any]:
    """The parameters with a shorter wait: the request that exists is never answered, and may be guessed."""
    wait = params.get("wait")
    return {**params, "wait": min(wait, WAIT_S)} if isinstance(wait, int | float) else params


def test_a_listener_is_for_its_own_user_alone(tmp_path: Path) -> None:
    path = tmp_path / "s"
    listener = listen(ListenAddress(path=path))
    try:
        assert path.stat().st_mode & 0o777 == 0o600
    finally:
        listener.close()
