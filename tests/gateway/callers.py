"""A gateway for tests, in the test's own loop, with a socket or without one, and callers with a token each."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import httpx
from litestar import Litestar
from litestar.types import ASGIApp

from ledger import Ledger
from ledger.client.spans import recording_api
from ledger.core.access_events import Role
from tests.gateway.in_process import InProcess
from workers.gateway import server
from workers.gateway.app import connect, make_app
from workers.gateway.authentication import PROOF_HEADER
from workers.gateway.gateway import Gateway
from workers.gateway.names import names_of, with_slashes_in_ids
from workers.gateway.own_rules import follow_while_waiting
from workers.gateway.server import ListenAddress, listen, with_edge
from workers.gateway.settings import GatewaySettings

ROLES: tuple[Role, ...] = ("agent", "approver", "auditor", "admin")

_idle: Final[list[Litestar]] = []
"""Applications whose gateways have ended. Making one takes longer than most tests do."""


class Caller:
    """A caller with a token, or without one (None)."""

    def __init__(self, way: Path | httpx.AsyncBaseTransport, token: str | None = None) -> None:
        """`way`: to the gateway, a unix socket or a transport."""
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        # Without TLS nothing is verified, and certificates need not be read.
        transport = httpx.AsyncHTTPTransport(uds=str(way), verify=False) if isinstance(way, Path) else way
        self.http = httpx.AsyncClient(transport=transport, base_url="http://gateway", headers=headers, timeout=60)

    async def send(self, method: str, path: str, body: Any = None, **headers: str) -> httpx.Response:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return await self.http.request(method, path, json=body, headers=named)

    async def get(self, path: str, **headers: str) -> httpx.Response:
        return await self.send("GET", path, None, **headers)

    async def put(self, path: str, body: Any = None, **headers: str) -> httpx.Response:
        return await self.send("PUT", path, {} if body is None else body, **headers)

    async def post(self, path: str, body: Any = None, **headers: str) -> httpx.Response:
        return await self.send("POST", path, {} if body is None else body, **headers)

    async def delete(self, path: str, **headers: str) -> httpx.Response:
        return await self.send("DELETE", path, None, **headers)

    async def status(self, method: str, path: str, body: Any = None) -> int:
        """Return the status of the answer without reading its body; an event stream has no end to wait for."""
        async with self.http.stream(method, path, json={} if body is None else body) as answer:
            return answer.status_code

    async def ask(self, session: str, pattern: str = "git push", **more: Any) -> httpx.Response:
        return await self.post(f"/v1/sessions/{session}/asks", {"permission": "bash", "patterns": [pattern], **more})


class Served:
    """A running gateway: its ledger, the way to it, and callers."""

    def __init__(self, ledger: Ledger, gateway: Gateway, way: Path | ASGIApp) -> None:
        self.ledger = ledger
        self.gateway = gateway
        self._way = way
        self._callers: list[Caller] = []

    @property
    def socket(self) -> Path:
        assert isinstance(self._way, Path), "this gateway has no socket; serve it with `served`"
        return self._way

    @property
    def app(self) -> ASGIApp:
        assert not isinstance(self._way, Path), "this gateway has a socket; serve it with `in_process`"
        return self._way

    async def caller(self, role: Role | None, name: str | None = None, **scope: Any) -> Caller:
        token = None
        if role is not None:
            token = (await self.ledger.tokens.create(name or role, role, **scope)).text
        return self.caller_with(token)

    def caller_with(self, token: str | None) -> Caller:
        caller = Caller(self._way if isinstance(self._way, Path) else InProcess(self._way), token)
        self._callers.append(caller)
        return caller

    async def browser(self, token: str) -> Caller:
        """Somebody who has signed in with a token: with a cookie and the proof of it, and no bearer token."""
        caller = self.caller_with(None)
        signed_in = await caller.post("/v1/sign-in", {"token": token}, Origin="http://gateway")
        assert signed_in.status_code == 200, signed_in.text
        caller.http.headers[PROOF_HEADER] = signed_in.json()["proof"]
        return caller

    async def close(self) -> None:
        for caller in self._callers:
            await caller.http.aclose()


@asynccontextmanager
async def in_process(ledger: Ledger, settings: GatewaySettings | None = None) -> AsyncIterator[Served]:
    """Have a gateway take requests without a socket until the block ends."""
    settings = settings or GatewaySettings()
    gateway = Gateway(ledger, settings)
    with application(gateway) as app:
        await gateway.start()
        following = asyncio.create_task(follow_while_waiting(gateway))
        edge = with_edge(with_slashes_in_ids(app), names_of([], settings.public_url, settings.hosts))
        one = Served(ledger, gateway, edge)
        try:
            yield one
        finally:
            gateway.stop()
            await one.close()
            following.cancel()
            with suppress(asyncio.CancelledError):
                await following
            await gateway.close()


@asynccontextmanager
async def served(ledger: Ledger, socket: Path, settings: GatewaySettings | None = None) -> AsyncIterator[Served]:
    """Serve a gateway on a socket until the block ends."""
    stop, ready = asyncio.Event(), asyncio.Event()
    held: list[Gateway] = []

    def started(gateway: Gateway) -> None:
        held.append(gateway)
        ready.set()

    with ExitStack() as stack, closing(listen(ListenAddress(path=socket))) as listener:
        with patch.object(server, "make_app", lambda gateway: stack.enter_context(application(gateway))):
            serving = asyncio.create_task(server.run(ledger, settings or GatewaySettings(), [listener], stop, started))
            await asyncio.wait((serving, asyncio.ensure_future(ready.wait())), return_when=asyncio.FIRST_COMPLETED)
        try:
            if serving.done():
                await serving
            one = Served(ledger, held[0], socket)
            try:
                yield one
            finally:
                await one.close()
        finally:
            stop.set()
            await serving


@contextmanager
def application(gateway: Gateway) -> Iterator[Litestar]:
    """Return the application of a gateway: one that served another gateway before, or a new one."""
    if recording_api() is not None:  # the application is another one where spans are recorded
        yield make_app(gateway)
        return
    app = _idle.pop() if _idle else make_app(gateway)
    connect(app, gateway)
    try:
        yield app
    finally:
        _idle.append(app)


async def pages(caller: Caller, path: str, query: str) -> list[list[dict[str, Any]]]:
    """Return the rows of all pages of a list, each page by the cursor of the one before; `path` is `/v1/NAME`."""
    found: list[list[dict[str, Any]]] = []
    cursor = ""
    while True:
        page = (await caller.get(f"{path}?{query}{cursor}")).json()
        found.append(page[path.rpartition("/")[2]])
        if page["cursor"] is None:
            return found
        cursor = f"&cursor={page['cursor']}"
