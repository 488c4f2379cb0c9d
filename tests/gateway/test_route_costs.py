"""The cost of a request on the ledger's server, which does not grow with the number of sessions."""

from __future__ import annotations

from typing import Final, NamedTuple

import pytest
import redis

from ledger import Ledger
from ledger.stores.urls import open_store
from ledger.testing import TestClock
from tests.gateway.callers import Caller, in_process
from tests.support.backends import PARTITION_COUNT
from tests.support.projecting import project_as_a_worker
from tests.support.servers import RealServer
from workers.gateway import request_search

FEW, MANY = 30, 90
"""Sessions: every one of the few partitions has some, since a read of all partitions may skip those that are empty."""

WAITING = 4
SPARE_COMMANDS: Final = 12
"""A turn of the clock, a lease or a page more are no growth; one command for each further session would be."""

SPARE_BYTES: Final = 2000
TIMES = 2
"""The first request of a kind fills caches, and the gateway's own work in the background costs something now and then."""

RULES = [{"permission": "bash", "pattern": "ls", "action": "allow"}]
ASK = {"permission": "bash", "patterns": ["ls"]}

REQUESTS: Final[tuple[tuple[str, str, object], ...]] = (
    ("GET", "/v1/sessions?limit=5", None),
    ("GET", "/v1/sessions?limit=5&project=shop", None),
    ("GET", "/v1/sessions/s0", None),
    ("GET", "/v1/sessions/s0/state", None),
    ("GET", "/v1/sessions/s0/timeline", None),
    ("GET", "/v1/sessions/s0/log", None),
    ("GET", "/v1/sessions/s0/outline", None),
    ("GET", "/v1/sessions/s0/verify", None),
    ("GET", "/v1/sessions/s0/asks/q0", None),
    ("GET", "/v1/pending?limit=5", None),
    ("GET", "/v1/grants?limit=5", None),
    ("GET", "/v1/freeze", None),
    ("GET", "/v1/tokens", None),
    ("GET", "/v1/passkeys", None),
    ("GET", "/v1/me", None),
    ("GET", "/permission", None),
    ("GET", "/metrics", None),
    ("GET", "/healthz", None),
    ("GET", "/readyz", None),
    ("PUT", "/v1/sessions/s0", {}),
    ("POST", "/v1/sessions/s0/asks", ASK),
    ("POST", "/v1/sessions/s0/asks/q0/reply", {"reply": "session"}),
    ("POST", "/permission/p3/reply", {"reply": "once"}),
    ("POST", "/v1/grants", {"project": "shop", "permission": "bash", "pattern": "pwd"}),
    ("POST", "/v1/freeze", {"reason": "drill", "project": "bank"}),
    ("DELETE", "/v1/freeze?project=bank&reason=over", None),
)
"""Requests for one thing, or one page."""


class Cost(NamedTuple):
    """The status of the answers, and what the server of the ledger did for the cheapest of them."""

    status: int
    commands: int
    sent_bytes: int
    scans: int


async def filled(url: str, clock: TestClock, count: int) -> None:
    store = open_store(url, clock=clock, partition_count=PARTITION_COUNT)
    await store.start()
    await store.close()
    async with Ledger.connect(url, clock=clock) as ledger:
        for number in range(count):
            session = await ledger.session(f"s{number}", project="shop" if number < FEW else "mill", rules=RULES)
            await session.ask("bash", ["ls"])
            await session.submit("bash", ["make"], always=["make"], request_id=f"q{number}")
            await session.reply(f"q{number}", "session", actor="ann")
            if number < WAITING:
                await session.submit("edit", ["a.py"], request_id=f"p{number}")
        await project_as_a_worker(ledger)


async def costs(server: RealServer, clock: TestClock) -> dict[str, Cost]:
    with redis.Redis.from_url(server.url) as client:
        async with Ledger.connect(server.url, clock=clock) as ledger, in_process(ledger) as gateway:
            root = await gateway.caller("admin", "root")
            return {f"{one[0]} {one[1]}": await _cost(client, root, *one) for one in REQUESTS}


async def _cost(client: redis.Redis, caller: Caller, method: str, path: str, body: object) -> Cost:
    found = []
    for _ in range(TIMES):
        before = _counts(client)
        status = (await caller.send(method, path, body)).status_code
        found.append(Cost(status, *(one - two for one, two in zip(_counts(client), before, strict=True))))
    assert found[0].status < 500
    return min(found, key=lambda one: one.commands)


def _counts(client: redis.Redis) -> tuple[int, int, int]:
    facts, commands = client.info("stats"), client.info("commandstats")
    scans = commands.get("cmdstat_scan", {}).get("calls", 0)
    return facts["total_commands_processed"], facts["total_net_output_bytes"], scans


async def test_a_request_costs_the_same_whatever_the_number_of_sessions(
    server: RealServer, clock: TestClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_search, "LOOK_EVERY_SECONDS", 0.0)
    await filled(server.url, clock, FEW)
    few = await costs(server, clock)
    with redis.Redis.from_url(server.url) as client:
        client.flushall()
    await filled(server.url, clock, MANY)
    many = await costs(server, clock)
    assert {path: (few[path], one) for path, one in many.items() if one.status != few[path].status} == {}
    assert {path for path, one in many.items() if one.status >= 400} == set()
    grown = {
        path: (few[path], one)
        for path, one in many.items()
        if one.commands > few[path].commands + SPARE_COMMANDS or one.sent_bytes > few[path].sent_bytes + SPARE_BYTES
    }
    assert grown == {}
    assert {path for path, one in many.items() if one.scans} == set()
