"""One token that sends a gateway its costliest requests, while an approver uses the inbox."""

from __future__ import annotations

import asyncio
import itertools
import json
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from bench.http_client import Connection
from bench.place import Place, child
from bench.report import Fsync, Rounds, Row, percentile

CONNECTIONS_COUNT = 4
"""Connections of each kind of attack."""

STREAMS_COUNT = 50

PAUSE_SECONDS = 0.02
RULES = [f"Bash({'*a' * 40}{number})" for number in range(300)]
LONG = "a " * 30_000
LARGE = "echo " + "a; " * 60_000
"""A request of 180 kB, which no rule decides."""

LINE: dict[str, Any] = {"dialect": "claude", "config": {"permissions": {"allow": RULES}}, "tool": "Bash", "cwd": "/w"}
CHECKED = json.dumps([{**LINE, "input": {"command": f"{LONG}{number}"}} for number in range(12)]).encode()
"""A body of 1.1 MB; made once, so that this process, which also measures, stays idle."""


class Flood:
    """A gateway with its default limits."""

    name = "flood"
    fsyncs: tuple[Fsync, ...] = ("everysec",)

    def __init__(self) -> None:
        self._rounds = Rounds(self.name)
        self._numbers = itertools.count()
        self._attacks = (
            self._check,
            self._ask_long,
            self._ask_large,
            self._ask_anew,
            self._open,
            self._ask_short,
        )

    async def start(self, place: Place) -> None:
        self._place = place
        folder = Path(place.stack.enter_context(tempfile.TemporaryDirectory(prefix="pl-")))
        self._socket = str(folder / "s")
        gateway = await place.stack.enter_async_context(
            child("bench.gateway_child", place.url, self._socket, "limited")
        )
        await gateway.line()
        self._agent = (await place.ledger.tokens.create("agent", "agent", brings_rules=True)).text
        ann = (await place.ledger.tokens.create("ann", "approver")).text
        self._page = await self._connect(ann)
        opener = await self._connect(self._agent)
        body = {"dialect": "claude", "rules": LINE["config"], "cwd": "/w"}
        status, row = await opener.send("PUT", "/v1/sessions/flooded", body)
        assert status == 201, row
        status, row = await opener.send("PUT", "/v1/sessions/loose", {"dialect": "opencode", "rules": []})
        assert status == 201, row

    async def _connect(self, token: str) -> Connection:
        connection = await Connection.open(self._socket, token)
        self._place.stack.callback(connection.close)
        return connection

    async def round(self, fsync: Fsync) -> None:
        tasks = [asyncio.create_task(self._attack(one)) for one in self._attacks for _ in range(CONNECTIONS_COUNT)]
        tasks += [asyncio.create_task(self._listen()) for _ in range(STREAMS_COUNT)]
        seconds: list[float] = []
        until = time.monotonic() + self._place.size(15, 5)
        try:
            while time.monotonic() < until:
                began = time.perf_counter()
                status, row = await self._page.send("GET", "/v1/pending")
                assert status == 200, row
                seconds.append(time.perf_counter() - began)
                await asyncio.sleep(PAUSE_SECONDS)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        self._rounds.add(fsync, "page", percentile([one * 1e3 for one in seconds], 99))

    async def _attack(self, send: Callable[[Connection], Awaitable[Any]]) -> None:
        connection = await self._connect(self._agent)
        while True:
            # A closed connection is opened again, as an attacker does.
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                await send(connection)
                continue
            connection = await self._connect(self._agent)

    async def _check(self, connection: Connection) -> None:
        await connection.send("POST", "/v1/policy/check", CHECKED)

    async def _ask_long(self, connection: Connection) -> None:
        body = {"tool_name": "Bash", "input": {"command": f"{LONG}{next(self._numbers)}"}}
        await connection.send("POST", "/v1/sessions/flooded/asks", body)

    async def _open(self, connection: Connection) -> None:
        number = next(self._numbers)
        body = {"dialect": "claude", "rules": {"permissions": {"deny": [f"{one[:-1]}{number})" for one in RULES]}}}
        await connection.send("PUT", f"/v1/sessions/ses-{number}", body)

    async def _ask_short(self, connection: Connection) -> None:
        body = {"tool_name": "Bash", "input": {"command": f"ls {next(self._numbers)}"}}
        await connection.send("POST", "/v1/sessions/flooded/asks", body)

    async def _ask_large(self, connection: Connection) -> None:
        body = {"tool_name": "bash", "input": {"command": f"{LARGE}{next(self._numbers)}"}}
        await connection.send("POST", "/v1/sessions/loose/asks", body)

    async def _ask_anew(self, connection: Connection) -> None:
        """Ask in a new session, which adds a stream to the list of all sessions."""
        session = f"/v1/sessions/ses-{next(self._numbers)}"
        await connection.send("PUT", session, {"dialect": "opencode", "rules": []})
        body = {"tool_name": "bash", "input": {"command": "ls"}}
        await connection.send("POST", f"{session}/asks", body)

    async def _listen(self) -> None:
        connection = await self._connect(self._agent)
        reader = await connection.listen("/v1/events")
        while await reader.read(1 << 16):
            pass

    def rows(self) -> list[Row]:
        count = len(self._attacks) * CONNECTIONS_COUNT
        what = f"an approver's page while one token floods on {count} connections and {STREAMS_COUNT} streams, p99"
        return [self._rounds.plain(what, "everysec", "page", "ms", at_most=300)]
