"""One token that sends a gateway its costliest requests, while an approver uses the inbox."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from bench.place import Place, Probe, gateway
from bench.report import Asked, Fsync, percentile

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

Sent = tuple[str, str, Any]
"""Method, path and body of a request."""


def asked(session: str, tool: str, command: str) -> Sent:
    return "POST", f"/v1/sessions/{session}/asks", {"tool_name": tool, "input": {"command": command}}


def opened(session: str, dialect: str, rules: Any) -> Sent:
    return "PUT", f"/v1/sessions/{session}", {"dialect": dialect, "rules": rules}


ATTACKS: tuple[Callable[[int], Iterable[Sent]], ...] = (
    lambda _: [("POST", "/v1/policy/check", CHECKED)],
    lambda number: [asked("flooded", "Bash", f"{LONG}{number}")],
    lambda number: [asked("loose", "bash", f"{LARGE}{number}")],
    # A new session adds a stream to the list of all sessions.
    lambda number: [opened(f"ses-{number}", "opencode", []), asked(f"ses-{number}", "bash", "ls")],
    lambda number: [
        opened(f"ses-{number}", "claude", {"permissions": {"deny": [f"{one[:-1]}{number})" for one in RULES]}})
    ],
    lambda number: [asked("flooded", "Bash", f"ls {number}")],
)


class Flood(Probe):
    """A gateway with its default limits."""

    name = "flood"

    def __init__(self, *, quick: bool = False) -> None:
        super().__init__(quick=quick)
        self._numbers = itertools.count()

    async def start(self, place: Place) -> None:
        self._gateway = await gateway(place.url, place.stack, "limited")
        self._agent = (await place.ledger.tokens.create("agent", "agent", brings_rules=True)).text
        ann = (await place.ledger.tokens.create("ann", "approver")).text
        self._page = await self._gateway.connect(ann)
        opener = await self._gateway.connect(self._agent)
        for method, path, body in (opened("flooded", "claude", LINE["config"]), opened("loose", "opencode", [])):
            status, row = await opener.send(method, path, {**body, "cwd": "/w"})
            assert status == 201, row

    async def round(self, fsync: Fsync) -> None:
        tasks = [asyncio.create_task(self._attack(one)) for one in ATTACKS for _ in range(CONNECTIONS_COUNT)]
        tasks += [asyncio.create_task(self._listen()) for _ in range(STREAMS_COUNT)]
        seconds: list[float] = []
        until = time.monotonic() + self.size(15, 5)
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

    async def _attack(self, attack: Callable[[int], Iterable[Sent]]) -> None:
        connection = await self._gateway.connect(self._agent)
        while True:
            # A closed connection is opened again, as an attacker does.
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                for sent in attack(next(self._numbers)):
                    await connection.send(*sent)
                continue
            connection = await self._gateway.connect(self._agent)

    async def _listen(self) -> None:
        connection = await self._gateway.connect(self._agent)
        reader = await connection.listen("/v1/events")
        while await reader.read(1 << 16):
            pass

    def asked(self) -> list[Asked]:
        count = len(ATTACKS) * CONNECTIONS_COUNT
        what = f"an approver's page while one token floods on {count} connections and {STREAMS_COUNT} streams, p99"
        return [Asked(what, "everysec", "page", "ms", at_most=300)]
