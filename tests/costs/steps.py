"""Counts the calls of Python and C, the commands, round trips and bytes of each step of a request's way.

A program of its own, since a module that another test has loaded may cost a call: `python -m tests.costs.steps URL [STEP...]`
prints them as JSON, for the server at a `unix:` URL; `bench.versions` runs it with other versions of the ledger.
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from collections.abc import Awaitable, Callable, Collection, Iterable
from contextlib import closing
from types import FrameType
from typing import Any, Final, NamedTuple

import httpx
import redis

from ledger import Ledger, Session, Timeouts
from ledger.testing import TestClock
from tests.support.backends import PARTITION_COUNT

try:
    from workers.expiry import Settler
except ImportError:  # an earlier version, beside this one in `bench.versions`
    from workers.expiry.settlement import Settler  # type: ignore[import-not-found,no-redef]

CLIENT_NAME: Final = "permission-ledger"
"""The name of the ledger's connections, in every version."""

TIMES: Final = 30
"""The first runs fill caches, the ledger does other things too now and then, and a wake-up may come before its answer."""

RULES: Final = [
    {"permission": "bash", "pattern": "ls", "action": "allow"},
    {"permission": "bash", "pattern": "git push", "action": "ask"},
]


class Cost(NamedTuple):
    """Calls of Python and C functions in the asking process; commands, round trips, bytes to and from the server."""

    python: int
    c: int
    commands: int = 0
    trips: int = 0
    sent: int = 0
    received: int = 0


Step = Callable[[], Awaitable[object]]


class Steps:
    """The steps that are counted, each made ready for one run; a run has requests of its own."""

    def __init__(self, ledger: Ledger, session: Session, clock: TestClock) -> None:
        self._ledger = ledger
        self._session = session
        self._clock = clock
        self._count = 0

    def _next(self) -> str:
        self._count += 1
        return f"q{self._count:04}"

    async def allowed_ask(self) -> Step:
        return lambda: self._session.ask("bash", ["ls"])

    async def allowed_ask_with_claim(self) -> Step:
        return lambda: self._session.ask("bash", ["ls"], claim=True)

    async def pending_ask(self) -> Step:
        # At most one request is pending.
        for one in await self._session.pending():
            await self._session.reply(one.request.request_id, "once", actor="ann")
        name = self._next()
        return lambda: self._session.submit("bash", ["git push"], request_id=name)

    async def pending(self) -> str:
        name = self._next()
        await self._session.submit("bash", ["git push"], request_id=name)
        return name

    async def reply(self) -> Step:
        name = await self.pending()
        return lambda: self._session.reply(name, "once", actor="ann")

    async def whole_trip(self) -> Step:
        name = self._next()

        async def trip() -> None:
            await self._session.submit("bash", ["git push"], request_id=name)
            waiting = asyncio.create_task(self._session.wait(name))
            await self._session.reply(name, "once", actor="ann")
            await waiting

        return trip

    async def expiry(self) -> Step:
        session = await self._ledger.session(self._next(), rules=RULES, timeouts=Timeouts(attended=1, unattended=1))
        await session.submit("bash", ["git push"], request_id="q")
        self._clock.advance("2s")
        return Settler(self._ledger).settle_due


class Requests:
    """Requests to a gateway, without the client that makes them."""

    def __init__(
        self, app: Any, scope_of: Callable[[httpx.Request], Any], token: str, steps: Steps, session: Session
    ) -> None:
        self._app = app
        self._scope_of = scope_of
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        self._steps = steps
        self._session = session

    async def http_answer(self) -> Step:
        name = await self._steps.pending()
        return self._request("POST", f"/v1/sessions/{self._session.id}/asks/{name}/reply", b'{"reply": "once"}')

    async def http_pending(self) -> Step:
        return self._request("GET", "/v1/pending?limit=1")

    def _request(self, method: str, path: str, body: bytes = b"") -> Step:
        scope = self._scope_of(httpx.Request(method, f"http://gateway{path}", headers=self._headers, content=body))
        statuses: list[int] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Any) -> None:
            statuses.append(message.get("status", 200))

        async def request() -> None:
            await self._app(scope, receive, send)
            assert statuses[0] == 200

        return request


class Meter:
    """Counts what one step does, in this thread and on the ledger's connections."""

    def __init__(self, url: str) -> None:
        self._socket = url.removeprefix("unix://")
        self._admin = redis.Redis.from_url(url)
        self._python = self._c = self._sends = 0

    def close(self) -> None:
        self._admin.close()

    async def cost(self, prepare: Callable[[], Awaitable[Step]]) -> Cost:
        """Return the least cost of several runs."""
        found = [await self._run(await prepare()) for _ in range(TIMES)]
        return Cost(*map(min, zip(*found, strict=True)))

    async def _run(self, step: Step) -> Cost:
        self._python = self._c = self._sends = 0
        before = self._served()
        sys.setprofile(self._seen)
        try:
            await step()
        finally:
            sys.setprofile(None)
        # Without the call that ended the counting.
        here = (self._python, self._c - 1)
        commands, sent, received = (one - two for one, two in zip(self._served(), before, strict=True))
        return Cost(*here, commands, self._sends, sent, received)

    def _seen(self, _: FrameType, event: str, what: Any) -> None:
        if event == "call":
            self._python += 1
        elif event == "c_call":
            self._c += 1
            if what.__name__ == "send" and isinstance(what.__self__, socket.socket):
                self._sends += what.__self__.getpeername() == self._socket

    def _served(self) -> tuple[int, int, int]:
        """Return the commands, and the bytes in and out, of the connections of ledgers; none where the server is too old to tell."""
        own = [one for one in self._admin.client_list() if one["name"] == CLIENT_NAME]
        commands, sent, received = (
            sum(int(one.get(name, 0)) for one in own) for name in ("tot-cmds", "tot-net-in", "tot-net-out")
        )
        return commands, sent, received


LONE: Final = ("allowed_ask", "allowed_ask_with_claim", "pending_ask", "reply", "whole_trip")
HTTP: Final = ("http_answer", "http_pending")
NAMES: Final = (*LONE, *HTTP, "expiry")


async def measured(url: str, names: Collection[str]) -> dict[str, Cost]:
    with closing(Meter(url)) as meter:
        costs: dict[str, Cost] = {}
        clock = TestClock()
        # By the server's own clock: a ledger by a test's clock trusts nothing that it read a moment ago.
        async with Ledger.connect(url, partitions=PARTITION_COUNT, entry_points=False) as ledger:
            session = await ledger.session("s", rules=RULES)
            steps = Steps(ledger, session, clock)
            for name in filter(names.__contains__, LONE):
                costs[name] = await meter.cost(getattr(steps, name))
            if wanted := list(filter(names.__contains__, HTTP)):
                costs |= await over_http(ledger, meter, steps, session, wanted)
        if "expiry" not in names:
            return costs
        async with Ledger.connect(url, clock=clock, entry_points=False) as ledger:
            steps = Steps(ledger, await ledger.session("t", rules=RULES), clock)
            costs["expiry"] = await meter.cost(steps.expiry)
    return costs


async def over_http(
    ledger: Ledger, meter: Meter, steps: Steps, session: Session, names: Iterable[str]
) -> dict[str, Cost]:
    # The other steps are counted with versions of the ledger, too, whose gateways are not made as ours is.
    from tests.gateway.callers import in_process  # noqa: PLC0415
    from tests.gateway.in_process import scope_of  # noqa: PLC0415
    from tests.support.projecting import project_as_a_worker  # noqa: PLC0415

    await project_as_a_worker(ledger)
    token = (await ledger.tokens.create("ann", "approver")).text
    async with in_process(ledger) as gateway:
        requests = Requests(gateway.app, scope_of, token, steps, session)
        return {name: await meter.cost(getattr(requests, name)) for name in names}


if __name__ == "__main__":
    found = asyncio.run(measured(sys.argv[1], sys.argv[2:] or NAMES))
    print(json.dumps({name: cost._asdict() for name, cost in found.items()}))  # noqa: T201 - its output
