"""Gateways killed at random while events pass, and readers that go on at another one.

A reader of a session sees each event once, in order. A reader of the whole ledger that asks for what is pending whenever
it is told to, and for what it is told of, knows what is pending.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Iterator

import httpx
import pytest

from ledger import Ledger
from tests.gateway.callers import Caller
from tests.gateway.events.listening import Listener, Told
from tests.support.gateways import RunningGateway
from tests.support.servers import RealServer
from tests.support.waiting import pause, wait_until_async

SESSIONS = 5
EVENTS = 1000
KILLS = 4
WAITING_S = 50.0


@pytest.fixture
def gateways(server: RealServer) -> Iterator[list[RunningGateway]]:
    running = [RunningGateway(server), RunningGateway(server)]
    try:
        for one in running:
            one.start()
        yield running
    finally:
        for one in running:
            one.close()


@pytest.fixture
async def ledger(server: RealServer) -> AsyncIterator[Ledger]:
    async with Ledger.connect(server.url) as ledger:
        yield ledger


class Persistent:
    """A reader that reconnects to any available gateway, with its last id."""

    def __init__(self, path: str, token: str, gateways: list[RunningGateway], at: int) -> None:
        self._path = path
        self._token = token
        self._gateways = gateways
        self._last_id: str | None = None
        self.at = at
        self.told: list[Told] = []
        self.resumed = 0

    async def read(self) -> None:
        while True:
            caller = Caller(self._gateways[self.at].home / "gateway.sock", self._token)
            try:
                await self._read_at(caller)
            except httpx.TransportError:
                self.at = 1 - self.at
                self.resumed += 1
                await pause()
            finally:
                await caller.http.aclose()

    async def _read_at(self, caller: Caller) -> None:
        headers = {} if self._last_id is None else {"Last-Event-ID": self._last_id}
        async with caller.http.stream("GET", self._path, headers=headers) as answer:
            assert answer.status_code == 200, await answer.aread()
            listener = Listener(answer, self._last_id)
            while (told := await listener.next()) is not None:
                self._last_id = told.last_id
                self.told.append(told)
                await self.take(told, caller)
        raise httpx.ReadError("the stream ended")

    async def take(self, told: Told, caller: Caller) -> None:
        """Do nothing more: a session's events say everything."""


class Asking(Persistent):
    """A reader of the whole ledger, who asks for what the hints are about."""

    def __init__(self, token: str, gateways: list[RunningGateway], at: int) -> None:
        super().__init__("/v1/events", token, gateways, at)
        self.pending: set[tuple[str, str]] = set()

    async def take(self, told: Told, caller: Caller) -> None:
        if told.name in ("stream.open", "resync"):
            rows = (await caller.get("/v1/pending")).json()["pending"]
            self.pending = {(row["session"], row["request_id"]) for row in rows}
        elif told.name in ("permission.asked", "permission.replied"):
            place = (told.data["session"], told.data["request_id"])
            found = (await caller.get(f"/v1/pending?session={place[0]}&request={place[1]}")).json()["pending"]
            self.pending = self.pending | {place} if found else self.pending - {place}


class Pace:
    """Limit on the writers' progress: events remain for after each kill, however long a gateway takes to start."""

    def __init__(self) -> None:
        self.rounds = 0
        self.next_part()

    def next_part(self) -> None:
        self.rounds += EVENTS // SESSIONS // 2 // (KILLS + 1)


async def write(ledger: Ledger, session: str, pace: Pace) -> None:
    """Write asks, each answered but the last: an event each."""
    handle = await ledger.session(session, project="shop")
    for number in range(EVENTS // SESSIONS // 2):
        while number >= pace.rounds:
            await pause()
        await handle.submit("bash", [f"make {number}"], request_id=f"r{number}")
        await handle.reply(f"r{number}", "once", actor="ann")
        await pause()
    await handle.submit("bash", ["make all"], request_id=_LAST)


async def kill_now_and_then(gateways: list[RunningGateway], readers: list[Persistent], pace: Pace) -> None:
    """Kill the gateway that most readers use, again and again; the other one stays available."""
    chance = random.Random()
    for _ in range(KILLS):
        seen = sum(len(reader.told) for reader in readers)
        more = chance.randrange(20, 200)
        await wait_until_async(lambda: sum(len(one.told) for one in readers) > seen + more, "events", WAITING_S)  # noqa: B023
        busy = gateways[round(sum(reader.at for reader in readers) / len(readers))]
        busy.kill9()
        await asyncio.to_thread(busy.start)
        pace.next_part()


@pytest.mark.slow
async def test_readers_miss_nothing_and_see_nothing_twice_whatever_is_killed(
    ledger: Ledger, gateways: list[RunningGateway]
) -> None:
    token = (await ledger.tokens.create("reader", "auditor")).text
    sessions = [f"ses_{number}" for number in range(SESSIONS)]
    for session in sessions:
        await ledger.session(session, project="shop")
    of_all = [Asking(token, gateways, at) for at in (0, 0, 1)]
    of_one = Persistent("/v1/sessions/ses_0/events", token, gateways, 0)
    readers: list[Persistent] = [*of_all, of_one]
    pace = Pace()
    reading = [asyncio.create_task(reader.read()) for reader in readers]
    still_asked = {(session, _LAST) for session in sessions}
    try:
        await wait_until_async(lambda: all(reader.told for reader in readers), "all readers to read", WAITING_S)
        killing = asyncio.create_task(kill_now_and_then(gateways, readers, pace))
        await asyncio.gather(*(write(ledger, session, pace) for session in sessions))
        await killing
        for reader in of_all:
            await wait_until_async(lambda: reader.pending == still_asked, "the last asks", WAITING_S)  # noqa: B023
        await wait_until_async(lambda: _pending(of_one.told) == {("ses_0", _LAST)}, "the last ask", WAITING_S)
    finally:
        for task in reading:
            task.cancel()
        ended = await asyncio.gather(*reading, return_exceptions=True)
    assert [one for one in ended if not isinstance(one, asyncio.CancelledError)] == []
    assert [_brief(told) for told in of_one.told if told.name.startswith("permission.")] == EXPECTED
    assert sum(reader.resumed for reader in readers) >= KILLS
    assert [told.name for told in of_one.told if told.name == "resync"] == []


_LAST = "last"
EXPECTED = [
    *(
        (name, f"r{number}")
        for number in range(EVENTS // SESSIONS // 2)
        for name in ("permission.asked", "permission.replied")
    ),
    ("permission.asked", _LAST),
]


def _brief(told: Told) -> tuple[str, str]:
    return told.name, told.data["request_id"]


def _pending(told: list[Told]) -> set[tuple[str, str]]:
    """Return what a reader of these events holds to be pending."""
    found: set[tuple[str, str]] = set()
    for one in told:
        place = (one.data.get("session"), one.data.get("request_id"))
        if one.name == "permission.asked":
            found.add(place)
        elif one.name == "permission.replied":
            found.remove(place)
    return found
