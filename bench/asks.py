"""Asks that a rule allows, durable: one at a time, many at once, and their cost to the server.

The same command is asked for repeatedly, as agents do; other rows measure commands that were never judged before,
and an edit, which needs no analysis of a shell line.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from itertools import count
from statistics import median

from bench.floor import ScriptStream
from bench.place import ALLOW, PAYLOAD, Place
from bench.report import FSYNCS, Fsync, Rounds, Row
from ledger import Session

CONCURRENT_COUNT = 64
WARM_COUNT = 20

OTHERS = {"new": "of a command not seen before", "edit": "of an edit"}

Work = Callable[[int], Awaitable[object]]


class _Asks:
    """A bare append, the script and asks, each on `CONCURRENT_COUNT` streams of its own."""

    _place: Place
    _works: dict[str, Work]

    async def start(self, place: Place) -> None:
        self._place = place
        numbers = count()
        label = type(self).__name__.lower()
        sessions: Sequence[Session] = [
            await place.ledger.session(f"{label}-{i}", rules=ALLOW) for i in range(CONCURRENT_COUNT)
        ]
        scripted = [ScriptStream(place.floor, place.keys, f"{label}-script-{i}") for i in range(CONCURRENT_COUNT)]
        self._works = {
            "floor": lambda i: place.floor.send("XADD", f"{label}:{i}", "*", "d", PAYLOAD),
            "script floor": lambda i: scripted[i].append(PAYLOAD),
            "ledger": lambda i: sessions[i].ask("bash", ["git status"]),
            "new": lambda i: sessions[i].ask("bash", [f"git show {next(numbers)}"]),
            "edit": lambda i: sessions[i].ask("edit", ["src/app.py"]),
        }


class LoneAsk(_Asks):
    """One operation at a time, the kinds in turn."""

    name = "lone"
    fsyncs = FSYNCS

    def __init__(self) -> None:
        self._rounds = Rounds(self.name)

    async def round(self, fsync: Fsync) -> None:
        seconds: dict[str, list[float]] = {figure: [] for figure in self._works}
        for turn in range(WARM_COUNT + self._place.size(300, 100)):
            for figure, work in self._works.items():
                began = time.perf_counter()
                await work(0)
                if turn >= WARM_COUNT:
                    seconds[figure].append(time.perf_counter() - began)
        for figure, taken in seconds.items():
            self._rounds.add(fsync, figure, median(taken) * 1e6)

    def rows(self) -> list[Row]:
        limits: tuple[tuple[Fsync, float], ...] = (("everysec", 2.5), ("always", 1.6))
        rows = []
        for fsync, at_most in limits:
            what = "ask allowed by rule, one at a time, p50"
            rows += [
                self._rounds.compared(what, fsync, "ledger", "us", "script floor", at_most=1.25),
                self._rounds.compared(what, fsync, "ledger", "us", "floor", at_most=at_most),
            ]
        rows += [
            self._rounds.compared(f"ask {which}, p50", "everysec", figure, "us", "script floor", at_most=1.25)
            for figure, which in OTHERS.items()
        ]
        return rows


class ConcurrentAppends(_Asks):
    """64 appends at once in one process, each to a stream of its own."""

    name = "concurrent"
    fsyncs = FSYNCS

    def __init__(self) -> None:
        self._rounds = Rounds(self.name)

    async def round(self, fsync: Fsync) -> None:
        each = self._place.size(60, 30)
        for figure, work in self._works.items():
            if fsync == "always" and figure in OTHERS:
                continue  # no row is made of it
            await _at_once(work, 3)
            began = time.perf_counter()
            await _at_once(work, each)
            self._rounds.add(fsync, figure, CONCURRENT_COUNT * each / (time.perf_counter() - began))

    def rows(self) -> list[Row]:
        rows = []
        for fsync in self.fsyncs:
            what = f"appends, {CONCURRENT_COUNT} at once"
            rows += [
                self._rounds.compared(what, fsync, "ledger", "/s", "script floor", at_least=0.7),
                self._rounds.compared(what, fsync, "ledger", "/s", "floor", at_least=1 / 6),
            ]
        rows += [
            self._rounds.compared(
                f"asks {which}, {CONCURRENT_COUNT} at once", "everysec", figure, "/s", "script floor", at_least=0.7
            )
            for figure, which in OTHERS.items()
        ]
        return rows


class ServerTime(_Asks):
    """Server time of an allowed ask against a bare XADD, 64 at once.

    By `INFO commandstats` (what runs inside the command) and by its processor time (with reading, parsing, the AOF).
    """

    name = "script"
    fsyncs: tuple[Fsync, ...] = ("everysec",)

    def __init__(self) -> None:
        self._rounds = Rounds(self.name)

    async def round(self, fsync: Fsync) -> None:
        for figure, command in (("floor", "xadd"), ("ledger", "evalsha")):
            in_command, in_all = await self._server_us(self._works[figure], command)
            self._rounds.add(fsync, f"{figure} command", in_command)
            self._rounds.add(fsync, f"{figure} processor", in_all)

    async def _server_us(self, work: Work, command: str) -> tuple[float, float]:
        """Return the microseconds of one call: inside the command, and of the whole process."""
        place = self._place
        each = place.size(60, 30)
        await _at_once(work, 3)
        await place.floor.send("CONFIG", "RESETSTAT")
        before = await self._processor_seconds()
        await _at_once(work, each)
        used = await self._processor_seconds() - before
        stats = (await place.info("commandstats"))[f"cmdstat_{command}"]
        per_call = dict(pair.split("=") for pair in stats.split(","))["usec_per_call"]
        return float(per_call), used * 1e6 / (CONCURRENT_COUNT * each)

    async def _processor_seconds(self) -> float:
        info = await self._place.info("cpu")
        return float(info["used_cpu_user"]) + float(info["used_cpu_sys"])

    def rows(self) -> list[Row]:
        return [
            self._rounds.compared(
                f"server time of an allowed ask, by {by}",
                "everysec",
                f"ledger {figure}",
                "us",
                f"floor {figure}",
                at_most=6.5,
            )
            for by, figure in (("processor time", "processor"), ("commandstats", "command"))
        ]


async def _at_once(work: Work, each: int) -> None:
    async def one(i: int) -> None:
        for _ in range(each):
            await work(i)

    await asyncio.gather(*(one(i) for i in range(CONCURRENT_COUNT)))
