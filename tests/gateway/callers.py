"""A gateway for tests, served on a real socket in the test's own loop, and callers with a token each."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from ledger import Ledger
from ledger.core.access_events import Role
from workers.gateway.authentication import PROOF_HEADER
from workers.gateway.gateway import Gateway
from workers.gateway.server import ListenAddress, listen, run
from workers.gateway.settings import GatewaySettings

ROLES: tuple[Role, ...] = ("agent", "approver", "auditor", "admin")


class Caller:
    """A caller with a token, or without one (None)."""

    def __init__(self, socket: Path, token: str | None = None) -> None:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        transport = httpx.AsyncHTTPTransport(uds=str(socket))
        self.http = httpx.AsyncClient(transport=transport, base_url="http://gateway", headers=headers, timeout=30)

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

    async def status(self, method: str, path: str) -> int:
        """Return the status of the answer without reading its body; an event stream has no end to wait for."""
        async with self.http.stream(method, path, json={}) as answer:
            return answer.status_code

    async def ask(self, session: str, pattern: str = "git push", **more: Any) -> httpx.Response:
        return await self.post(f"/v1/sessions/{session}/asks", {"permission": "bash", "patterns": [pattern], **more})


class Served:
    """A running gateway: its ledger, its socket, and callers."""

    def __init__(self, ledger: Ledger, gateway: Gateway, socket: Path) -> None:
        self.ledger = ledger
        self.gateway = gateway
        self.socket = socket
        self._callers: list[Caller] = []

    async def caller(self, role: Role | None, name: str | None = None, **scope: Any) -> Caller:
        token = None
        if role is not None:
            token = (await self.ledger.tokens.create(name or role, role, **scope)).text
        return self.caller_with(token)

    def caller_with(self, token: str | None) -> Caller:
        caller = Caller(self.socket, token)
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
async def served(ledger: Ledger, socket: Path, settings: GatewaySettings | None = None) -> AsyncIterator[Served]:
    """Serve a gateway until the block ends."""
    stop, ready = asyncio.Event(), asyncio.Event()
    held: list[Gateway] = []

    def started(gateway: Gateway) -> None:
        held.append(gateway)
        ready.set()

    listener = listen(ListenAddress(path=socket))
    serving = asyncio.create_task(run(ledger, settings or GatewaySettings(), [listener], stop, started))
    try:
        await asyncio.wait((serving, asyncio.ensure_future(ready.wait())), return_when=asyncio.FIRST_COMPLETED)
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
        listener.close()


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
