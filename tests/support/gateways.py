"""Gateways on a data folder of their own, and the people who answer there.

One is a process that a test may kill and start again; the other is served by a thread of this process.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import urlencode

import pytest

from ledger import Ledger
from ledger.testing import TestClock
from tests.support.forks import Fork
from tests.support.gateway_thread import gateway_thread
from tests.support.processes import ROOT, environment_without_settings, free_port
from tests.support.servers import RealServer
from tests.support.waiting import wait_until, wait_until_async
from workers.transport.gateway_client import GatewayClient
from workers.transport.place import GatewayRefusalError, ServerAddress, find_place, parse_place

Row = dict[str, Any]
T = TypeVar("T")

START_S: Final = 60.0
ASKED_S: Final = 60.0
"""Time that a real agent may take to start and ask on a busy machine."""

PEOPLE: Final = ("ann", "bob")


class RunningGateway:
    """`permission-ledger serve` on a unix socket of a data folder of its own, whose ledger is on `server`."""

    def __init__(self, server: RealServer, *words: str, with_pages: bool = False) -> None:
        # Short: socket paths are limited in length.
        self.home = Path(tempfile.mkdtemp(prefix="pl-gw-"))
        self.server = server
        self.page_url = f"http://127.0.0.1:{free_port()}" if with_pages else ""
        pages = ("--listen", self.page_url.removeprefix("http://"), "--public-url", self.page_url)
        self._words = (*words, *(pages if with_pages else ()))
        self._process: subprocess.Popen[bytes] | None = None
        self._tokens: dict[str, str] = {}

    @property
    def environment(self) -> dict[str, str]:
        """Variables for programs that are to find this gateway by its data folder."""
        return {
            **environment_without_settings(),
            "PERMISSION_LEDGER_HOME": str(self.home),
            "PYTHONPATH": str(ROOT),
        }

    @property
    def address(self) -> str:
        return f"unix:{self.home / 'gateway.sock'}"

    def start(self) -> None:
        """Returns when it takes requests."""
        log = self.home / "log"
        log.write_text("")
        if not self._tokens:
            self.with_ledger(self._make_tokens)
        with log.open("ab") as file:
            self._process = self._start_process(
                ["serve", "--listen", self.address, *self._words],
                cwd=ROOT,
                env={**self.environment, "PERMISSION_LEDGER_URL": self.server.url},
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                start_new_session=True,
            )
        wait_until(self._is_ready, f"the gateway: {log}", START_S)

    def _start_process(self, words: list[str], **more: Any) -> subprocess.Popen[bytes]:
        return subprocess.Popen([sys.executable, "-m", "workers.cli", *words], **more)

    def _is_ready(self) -> bool:
        assert self._process
        assert self._process.poll() is None, (self.home / "log").read_text()
        return "inbox" in (self.home / "log").read_text()

    def is_waited_for(self, session: str = "*") -> bool:
        """Return whether some bridge or hook waits for an answer, and its file says for which.

        Takes no lock: one would block the bridge or hook.
        """
        locked = {line.split()[5].rpartition(":")[2] for line in Path("/proc/locks").read_text().splitlines()}
        found = list((self.home / "askers").glob(f"{session}/*"))
        with suppress(FileNotFoundError):  # an asker has just left
            return any(one.st_size > 0 and str(one.st_ino) in locked for one in (path.stat() for path in found))
        return False

    async def _make_tokens(self, ledger: Ledger) -> None:
        """Create the people's tokens, and the agent's in the file from which programs of this user read it."""
        made = await ledger.tokens.create("worker", "agent", brings_rules=True, any_project=True)
        for name in PEOPLE:
            self._tokens[name] = (await ledger.tokens.create(name, "admin")).text
        (self.home / "gateway.json").write_text(json.dumps({"url": self.address, "token": made.text}))

    def with_ledger(self, work: Callable[[Ledger], Awaitable[T]]) -> T:
        """Return what some work on the gateway's ledger returns."""

        async def done() -> T:
            async with Ledger.connect(self.server.url, entry_points=False) as ledger:
                return await work(ledger)

        return asyncio.run(done())

    def kill9(self) -> None:
        assert self._process
        self._process.kill()
        self._process.wait(timeout=START_S)

    def close(self) -> None:
        if self._process and self._process.poll() is None:
            self.kill9()
        shutil.rmtree(self.home, ignore_errors=True)

    def agent_place(self) -> ServerAddress:
        return find_place({"PERMISSION_LEDGER_HOME": str(self.home)})

    def token(self, name: str = "ann") -> str:
        """Return the token of one of PEOPLE, who may answer."""
        return self._tokens[name]

    def person(self, name: str = "ann") -> Person:
        """Return one of PEOPLE, who may answer."""
        return Person(self.address, self._tokens[name])


class ForkedGateway(RunningGateway):
    """As a running gateway; its process is a fork, which starts faster."""

    def _start_process(self, words: list[str], **more: Any) -> subprocess.Popen[bytes]:
        return Fork(words, **more)


class ServedGateway(RunningGateway):
    """As a running gateway that nobody kills, in the thread of this process that serves one gateway at a time.

    `clock` None: the server's clock.
    """

    def __init__(self, server: RealServer, clock: TestClock | None = None) -> None:
        super().__init__(server)
        self._clock = clock
        self._is_open = False
        self._socket = self.home / "gateway.sock"

    def start(self) -> None:
        gateway_thread().open(self.server.url, self._clock)
        self._is_open = True
        if not self._tokens:
            self.with_ledger(self._make_tokens)
        self._socket.unlink(missing_ok=True)
        self._socket.symlink_to(gateway_thread().socket)

    def leave_as_killed(self) -> None:
        """Leave what a killed gateway leaves: its tokens, the way to it, and a socket on which nobody listens."""
        self.with_ledger(self._make_tokens)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(self._socket))

    def with_ledger(self, work: Callable[[Ledger], Awaitable[T]]) -> T:
        return gateway_thread().with_ledger(work) if self._is_open else super().with_ledger(work)

    def kill9(self) -> None:
        raise AssertionError('a test that kills its gateway says `@pytest.mark.usefixtures("killable_gateway")`')

    def close(self) -> None:
        if self._is_open:
            gateway_thread().close()
        super().close()


class Person:
    """A person who reads and answers requests through the gateway."""

    def __init__(self, address: str, token: str) -> None:
        self._client = GatewayClient(lambda: parse_place(address, token))

    async def open(self, session: str, **body: Any) -> Row:
        return await self._client.open_session(session, **body)

    async def waiting(self, session: str, count: int = 1) -> list[Row]:
        """Return the session's pending requests, after waiting for at least `count` of them."""

        async def enough() -> list[Row]:
            rows = await self.pending(session)
            return rows if len(rows) >= count else []

        return await wait_until_async(enough, f"{count} requests to be pending in {session}", ASKED_S)

    async def pending(self, session: str) -> list[Row]:
        rows: list[Row] = (await self._client.call("GET", f"/v1/pending?{urlencode({'session': session})}"))["pending"]
        return rows

    async def all_pending(self) -> list[Row]:
        """Return the pending requests of all sessions."""
        rows: list[Row] = (await self._client.call("GET", "/v1/pending"))["pending"]
        return rows

    async def pending_below(self, session: str) -> list[Row]:
        """Return the pending requests of a session and of its sub-agents."""
        rows: list[Row] = (await self._client.call("GET", f"/v1/pending?tree={session}"))["pending"]
        return rows

    async def reply(self, session: str, request_id: str, reply: str, **more: Any) -> Row:
        path = f"/v1/sessions/{session}/asks/{request_id}/reply"
        return await self._client.call("POST", path, {"reply": reply, **more})

    async def answer_next(self, session: str, reply: str, **more: Any) -> Row:
        """Answer the request that has been pending longest, after waiting for one; return it as shown."""
        [shown, *_] = await self.waiting(session)
        await self.reply(session, shown["request_id"], reply, **more)
        return shown

    async def outcome(self, session: str, request_id: str) -> Row | None:
        """Return the ended request; None while it is pending, or when it is unknown."""
        try:
            row = await self._client.read(session, request_id)
        except GatewayRefusalError:
            return None
        return row if row["outcome"] is not None else None

    async def events(self, session: str) -> list[Row]:
        rows: list[Row] = (await self._client.call("GET", f"/v1/sessions/{session}/log?limit=1000"))["events"]
        return rows

    async def outcomes(self, session: str) -> list[tuple[str, str]]:
        """Return the type and request id of each event that ends a request."""
        return [
            (row["type"], row["event"].get("request_id", ""))
            for row in await self.events(session)
            if row["type"] not in ("opened", "policy_set")
        ]

    async def close(self) -> None:
        await self._client.close()


@pytest.fixture
def killable_gateway() -> None:
    """Have `gateway` be a process, which the test may kill and start again."""


@pytest.fixture
def no_gateway() -> None:
    """Have `gateway` be one that was killed before the test; the test may start it."""


def let_bridges_find(running: RunningGateway, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("PERMISSION_LEDGER_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PERMISSION_LEDGER_HOME", str(running.home))


@pytest.fixture
def gateway(
    server: RealServer, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[RunningGateway]:
    """A running gateway, which bridges of this process find as well; on the clock of a test that has one."""
    clock = request.getfixturevalue("clock") if "clock" in request.fixturenames else None
    is_process = "killable_gateway" in request.fixturenames
    running = ForkedGateway(server) if is_process else ServedGateway(server, clock)
    let_bridges_find(running, monkeypatch)
    try:
        if isinstance(running, ServedGateway) and "no_gateway" in request.fixturenames:
            running.leave_as_killed()
        else:
            running.start()
        yield running
    finally:
        running.close()


@pytest.fixture
async def ann(gateway: RunningGateway) -> AsyncIterator[Person]:
    """A person who answers at the gateway."""
    person = gateway.person()
    yield person
    await person.close()
