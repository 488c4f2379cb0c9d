"""A gateway under load: many open event streams while requests are asked and answered over HTTP.

Also an ask that a rule allows, over HTTP on a kept-alive unix socket, against the same ask in this process.
"""

from __future__ import annotations

import asyncio
import re
import time
from functools import partial

from bench.http_client import Connection
from bench.place import ALLOW, ASK, Place, Probe, child, gateway
from bench.report import FSYNCS, Asked, Fsync, percentile, timed

ASKS_PER_SECOND = 200
ASKERS_COUNT = 100
ANSWERERS_COUNT = 10
SESSIONS_COUNT = 20
WARM_COUNT = 50

ASKED = re.compile(rb'event: permission\.asked\ndata: \{"session":"([^"]+)"[^\n]*?"request_id":"([^"]+)"')


class GatewayLoad(Probe):
    """One gateway, one process with all readers, and this process, which asks and answers."""

    name = "gateway"
    fsyncs = FSYNCS

    def __init__(self, *, quick: bool = False) -> None:
        super().__init__(quick=quick)
        self._asked = 0
        self._replied: dict[str, int] = {}
        self._resumed: dict[str, int] = {}

    @property
    def _streams(self) -> int:
        return self.size(1000, 100)

    async def start(self, place: Place) -> None:
        self._place = place
        self._gateway = await gateway(place.url, place.stack)
        self._own = await place.ledger.session("own", rules=ALLOW)
        self._askers = [await self._gateway.connect() for _ in range(ASKERS_COUNT)]
        self._answerers = [await self._gateway.connect() for _ in range(ANSWERERS_COUNT)]
        for number in range(SESSIONS_COUNT):
            await self._askers[0].send("PUT", f"/v1/sessions/ses-{number}", {"rules": list(ASK)})
        await self._askers[0].send("PUT", "/v1/sessions/http", {"rules": list(ALLOW)})
        lines = await (await self._gateway.connect()).listen("/v1/events")
        await lines.readuntil(b"event: stream.open")
        self._answering = asyncio.create_task(self._answer_what_is_asked(lines))
        place.stack.push_async_callback(self._end)
        await self._ask_and_be_answered(1)
        before, _ = await self._memory_and_time()
        words = ("bench.gateway_readers", self._gateway.socket, self._gateway.token, self._streams)
        self._readers = await place.stack.enter_async_context(child(*words))
        assert await self._readers.line() == "open"
        after, _ = await self._memory_and_time()
        self._rounds.add("everysec", "memory", (after - before) / self._streams / 1000)
        self._unread = self._asked

    async def _memory_and_time(self) -> tuple[int, int]:
        """Return the gateway's memory (bytes) and its processor time (ns)."""
        await self._gateway.process.tell("memory and time")
        memory, took = (await self._gateway.process.line()).split()
        return int(memory), int(took)

    async def _end(self) -> None:
        self._answering.cancel()
        await asyncio.gather(self._answering, return_exceptions=True)

    async def round(self, fsync: Fsync) -> None:
        await (self._under_load(fsync) if fsync == "everysec" else self._lone(fsync))

    # --- one ask at a time ------------------------------------------------------------------------------------------

    async def _lone(self, fsync: Fsync) -> None:
        works = {
            "in process": partial(timed, self._own.ask, "bash", ["git status"]),
            "http": partial(timed, self._ask_over_http),
        }
        took = await self._rounds.in_turn(fsync, works, self.size(300, 100))
        self._rounds.add(fsync, "more", took["http"] - took["in process"])

    async def _ask_over_http(self) -> None:
        body = {"permission": "bash", "patterns": ["git status"]}
        status, row = await self._askers[0].send("POST", "/v1/sessions/http/asks", body)
        assert (status, row["outcome"]) == (200, "allowed"), row

    # --- very many readers ------------------------------------------------------------------------------------------

    async def _under_load(self, fsync: Fsync) -> None:
        before = set(self._resumed)
        count = self.size(5, 2) * ASKS_PER_SECOND
        _, begun_ns = await self._memory_and_time()
        await self._ask_and_be_answered(count)
        await self._readers.tell(str(self._asked - self._unread))
        told: dict[str, int] = {}
        while (line := await self._readers.line()) != "done":
            request, at = line.split()
            told[request] = int(at)
        _, ended_ns = await self._memory_and_time()
        self._rounds.add(fsync, "processor", (ended_ns - begun_ns) / count / 1e6)
        fresh = [request for request in self._resumed if request not in before]
        resumed = [(self._resumed[one] - self._replied[one]) / 1e6 for one in fresh]
        all_told = [(told[one] - self._replied[one]) / 1e6 for one in fresh if one in told]
        self._rounds.add(fsync, "resumed", percentile(resumed, 99))
        self._rounds.add(fsync, "told", percentile(all_told, 99))
        self._rounds.add(fsync, "lost", len(fresh) - len(all_told))

    async def _ask_and_be_answered(self, count: int) -> None:
        """Ask `count` requests, evenly in time; each asker waits for its answer on a connection of its own."""
        idle: asyncio.Queue[Connection] = asyncio.Queue()
        for connection in self._askers:
            idle.put_nowait(connection)
        began = time.monotonic()
        async with asyncio.TaskGroup() as group:
            for number in range(count):
                await asyncio.sleep(max(0.0, began + number / ASKS_PER_SECOND - time.monotonic()))
                group.create_task(self._ask(await idle.get(), idle))

    async def _ask(self, connection: Connection, idle: asyncio.Queue[Connection]) -> None:
        self._asked += 1
        request_id = f"r{self._asked}"
        path = f"/v1/sessions/ses-{self._asked % SESSIONS_COUNT}/asks?wait=60"
        status, row = await connection.send(
            "POST", path, {"permission": "bash", "patterns": ["git push"], "request_id": request_id}
        )
        self._resumed[request_id] = time.monotonic_ns()
        assert (status, row["outcome"]) == (200, "allowed"), row
        idle.put_nowait(connection)

    async def _answer_what_is_asked(self, lines: asyncio.StreamReader) -> None:
        """Answer every request at once, from the same event stream that all readers have."""
        idle: asyncio.Queue[Connection] = asyncio.Queue()
        for connection in self._answerers:
            idle.put_nowait(connection)
        rest = b""
        async with asyncio.TaskGroup() as group:
            while data := await lines.read(2**20):
                whole, _, rest = (rest + data).rpartition(b"\n\n")
                for session, request in ASKED.findall(whole):
                    group.create_task(self._answer(await idle.get(), idle, session.decode(), request.decode()))

    async def _answer(
        self, connection: Connection, idle: asyncio.Queue[Connection], session: str, request_id: str
    ) -> None:
        self._replied[request_id] = time.monotonic_ns()
        status, row = await connection.send(
            "POST", f"/v1/sessions/{session}/asks/{request_id}/reply", {"reply": "once"}
        )
        assert status == 200, row
        idle.put_nowait(connection)

    def asked(self) -> list[Asked]:
        many = f"{self._streams:,} event streams, {ASKS_PER_SECOND} asks/s with replies"
        return [
            Asked("ask allowed by rule over HTTP: more than in process, p50", "always", "more", "us", at_most=800),
            Asked(f"{many}: reply to asker resumed, p99", "everysec", "resumed", "ms", at_most=100),
            Asked(f"{many}: reply to all streams told, p99", "everysec", "told", "ms", at_most=500),
            Asked(f"{many}: events lost", "everysec", "lost", "", at_most=0),
            # Other load of the machine shows in the times above, not here: one processor has 5 ms for each.
            Asked(f"{many}: processor time of the gateway, an ask", "everysec", "processor", "ms", at_most=5),
            Asked("memory of an open stream", "everysec", "memory", "kB", at_most=50),
        ]
