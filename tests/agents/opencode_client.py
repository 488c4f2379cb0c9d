"""The real `opencode serve` under a test's control, and the bridge beside it."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import httpx

from tests.agents.openai_model import Model
from tests.agents.rpc_client import Home
from tests.support.gateways import RunningGateway
from tests.support.processes import ROOT, free_port
from tests.support.waiting import wait_until, wait_until_async

Row = dict[str, Any]

LONG_S: Final = 60.0


class OpenCodeClient:
    """One data folder and one project; the server may be killed and started again on them."""

    def __init__(
        self, folder: Path, program: Path, model: Model, *, wrapper: tuple[str, ...] = (), project: Path | None = None
    ) -> None:
        self.folder = folder
        self._home = Home(folder, project)
        self.project = self._home.work
        self.model = model
        self.port = free_port()
        self._program = program
        self._wrapper = wrapper
        self._process: subprocess.Popen[bytes] | None = None
        query = {"directory": str(self.project)}
        self.http = httpx.AsyncClient(base_url=self.url, params=query, timeout=30, trust_env=False)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def environment(self) -> dict[str, str]:
        return self._home.opencode(self.model.url)

    def start(self, more: dict[str, str] | None = None) -> None:
        """Start the server; return when it reports that it listens, since earlier requests are never answered."""
        log = self.folder / "log"
        log.write_bytes(b"")
        words = [*self._wrapper, str(self._program), "serve", "--hostname", "127.0.0.1", "--port", str(self.port)]
        with log.open("ab") as file:
            self._process = subprocess.Popen(
                words,
                cwd=self.project,
                env={**self.environment(), **(more or {})},
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                start_new_session=True,
            )
        wait_until(lambda: "server listening" in log.read_text(errors="replace"), f"opencode: {log}", LONG_S)

    def kill(self) -> None:
        assert self._process
        self._process.kill()
        self._process.wait(timeout=LONG_S)

    def end(self) -> int:
        assert self._process
        self._process.terminate()
        return self._process.wait(timeout=LONG_S)

    async def close(self) -> None:
        await self.http.aclose()
        if self._process and self._process.poll() is None:
            self.kill()

    # --- actions of its user

    async def open(self) -> str:
        """Open a new session; return its id."""
        session: str = (await self.http.post("/session", json={"title": "a journey"})).json()["id"]
        return session

    async def say(self, session: str) -> None:
        model = {"providerID": "test", "modelID": "scripted"}
        body = {"parts": [{"type": "text", "text": "do the work"}], "model": model}
        assert (await self.http.post(f"/session/{session}/prompt_async", json=body)).status_code == 204

    async def begin(self) -> str:
        """Open a new session with work to do; return its id."""
        session = await self.open()
        await self.say(session)
        return session

    async def abort(self, session: str) -> None:
        await self.http.post(f"/session/{session}/abort")

    async def reply(self, request_id: str, reply: str) -> int:
        return (await self.http.post(f"/permission/{request_id}/reply", json={"reply": reply})).status_code

    async def pending(self) -> list[str]:
        """Return the ids of its pending requests, ghosts included."""
        return [one["id"] for one in (await self.http.get("/permission")).json()]

    async def tool(self, session: str, call_id: str) -> Row:
        """Return the final state of a tool call, after waiting for its end."""

        async def ended() -> Row | None:
            messages = (await self.http.get(f"/session/{session}/message")).json()
            parts = [part for message in messages for part in message["parts"] if part.get("callID") == call_id]
            done = [part["state"] for part in parts if part["state"]["status"] in ("completed", "error")]
            return done[0] if done else None

        state = await wait_until_async(ended, f"{call_id} to end", LONG_S)
        assert state is not None
        return state


class BridgeProcess:
    """`permission-ledger bridge opencode` as a process."""

    def __init__(self, gateway: RunningGateway, folder: Path, *words: str) -> None:
        self._log = folder / "bridge.log"
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "workers.cli", "bridge", "opencode", *words],
                cwd=ROOT,
                env=gateway.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    @property
    def said(self) -> str:
        return self._log.read_text()

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            self._process.kill()
        self._process.wait(timeout=LONG_S)
