"""Asks that a rule allows, durable: one at a time, many at once, and their cost to the server.

The same command is asked for repeatedly, as agents do; other rows measure commands that were never judged before,
and an edit, which needs no analysis of a shell line.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from itertools import count

from bench.floor import ScriptStream
from bench.place import ALLOW, PAYLOAD, Place, Probe
from bench.report import FSYNCS, Asked, Fsync, timed
from ledger import Ledger, Session

CONCURRENT_COUNT = 64

OTHERS = {"new": "of a command not seen before", "edit": "of an edit"}

Work = Callable[[int], Awaitable[object]]


class _Asks(Probe):
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
    """One operation at a time, the kinds in turn; then the same of asks with a claim and without masks."""

    name = "lone"
    fsyncs = FSYNCS

    async def start(self, place: Place) -> None:
        await super().start(place)
        bare = Ledger.connect(place.url, actor="bench", entry_points=False, masks=False)
        unmasked = await (await place.stack.enter_async_context(bare)).session("lone-unmasked", rules=ALLOW)
        claimed = await place.ledger.session("lone-claimed", rules=ALLOW)
        self._claims: dict[str, Callable[[], Awaitable[float]]] = {
            "ask": partial(timed, claimed.ask, "bash", ["git status"]),
            "without masks": partial(timed, unmasked.ask, "bash", ["git status"]),
            "with claim": partial(_with_claim, claimed),
            "claim alone": partial(_claim_alone, claimed),
        }

    async def round(self, fsync: Fsync) -> None:
        works = {figure: partial(timed, work, 0) for figure, work in self._works.items()}
        for kinds in (works, self._claims):
            await self._rounds.in_turn(fsync, kinds, self.size(300, 100))

    def asked(self) -> list[Asked]:
        limits: tuple[tuple[Fsync, float], ...] = (("everysec", 2.5), ("always", 1.6))
        rows = []
        for fsync, at_most in limits:
            what = "ask allowed by rule, one at a time, p50"
            rows += [
                Asked(what, fsync, "ledger", "us", "script floor", at_most=1.55),
                Asked(what, fsync, "ledger", "us", "floor", at_most=at_most),
                Asked("… with its claim", fsync, "with claim", "us", "ask", at_most=1.1),
                Asked("… with its claim and masks", fsync, "with claim", "us", "without masks", at_most=1.15),
                Asked("claim of a call allowed before, p50", fsync, "claim alone", "us", "ask", at_most=3),
            ]
        rows += [
            Asked(f"ask {which}, p50", "everysec", figure, "us", "script floor", at_most=2.6)
            for figure, which in OTHERS.items()
        ]
        return rows


async def _with_claim(session: Session) -> float:
    """Return the seconds of an ask with its claim; the end of the run is recorded outside of them."""
    began = time.perf_counter()
    result = await session.ask("bash", ["git status"], claim="bench")
    taken = time.perf_counter() - began
    assert result.settled is not None
    assert result.settled.claim is not None, "an allowed ask with a claim has it"
    await session.finish(result.request_id, result.settled.claim.claim_id)
    return taken


async def _claim_alone(session: Session) -> float:
    asked = await session.ask("bash", ["git status"])
    began = time.perf_counter()
    claim = await session.claim(asked.request_id, runner="bench")
    taken = time.perf_counter() - began
    await session.finish(asked.request_id, claim.claim_id)
    return taken


class ConcurrentAppends(_Asks):
    """64 appends at once in one process, each to a stream of its own."""

    name = "concurrent"
    fsyncs = FSYNCS

    async def round(self, fsync: Fsync) -> None:
        each = self.size(60, 30)
        for figure, work in self._works.items():
            if fsync == "always" and figure in OTHERS:
                continue  # no row is made of it
            await _at_once(work, 3)
            began = time.perf_counter()
            await _at_once(work, each)
            self._rounds.add(fsync, figure, CONCURRENT_COUNT * each / (time.perf_counter() - began))

    def asked(self) -> list[Asked]:
        rows = []
        for fsync in self.fsyncs:
            what = f"appends, {CONCURRENT_COUNT} at once"
            rows += [
                Asked(what, fsync, "ledger", "/s", "script floor", at_least=0.4),
                Asked(what, fsync, "ledger", "/s", "floor", at_least=1 / 6),
            ]
        rows += [
            Asked(f"asks {which}, {CONCURRENT_COUNT} at once", "everysec", figure, "/s", "script floor", at_least=0.4)
            for figure, which in OTHERS.items()
        ]
        return rows


class ServerTime(_Asks):
    """The server's processor time of an allowed ask against a bare XADD, 64 at once: reading, parsing and the AOF, too."""

    name = "script"

    async def round(self, fsync: Fsync) -> None:
        each = self.size(60, 30)
        for figure in ("floor", "ledger"):
            await _at_once(self._works[figure], 3)
            before = await self._processor_seconds()
            await _at_once(self._works[figure], each)
            used = await self._processor_seconds() - before
            self._rounds.add(fsync, figure, used * 1e6 / (CONCURRENT_COUNT * each))

    async def _processor_seconds(self) -> float:
        info = await self._place.info("cpu")
        return float(info["used_cpu_user"]) + float(info["used_cpu_sys"])

    def asked(self) -> list[Asked]:
        what = "server's processor time of an allowed ask"
        return [Asked(what, "everysec", "ledger", "us", at_most=33)]


async def _at_once(work: Work, each: int) -> None:
    async def one(i: int) -> None:
        for _ in range(each):
            await work(i)

    await asyncio.gather(*(one(i) for i in range(CONCURRENT_COUNT)))
