"""One soak: the processes, the minutes of work, and the checks after it."""

from __future__ import annotations

import asyncio
import os
import random
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Final

from bench.place import ROOT, Place
from bench.soak.audit import Audit, still_readable
from bench.soak.day import (
    CLAIM_SECONDS,
    IDLE_SECONDS,
    KILL_SECONDS,
    REDACTION_SECONDS,
    ROUND_SECONDS,
    SAMPLE_SECONDS,
    UNATTENDED_SECONDS,
    Day,
)
from bench.soak.indexes import until_indexed, wrong_in
from bench.soak.leftovers import keys_without_end, outlived, until_nothing_is_due, until_sealed
from bench.soak.memory import SERVER_BYTES_A_REQUEST_MAX, MemoryRow, Sample, row_of
from bench.soak.processes import FOLDS_MB, MARK, Arguments, Company, Soaked
from bench.soak.report import SoakRun
from bench.soak.telling import Asked, Heard

CALLERS: Final = ("agents", "agents over HTTP", "person")
QUIET_SECONDS: Final = 120.0
"""The time that workers may take for what is due, beyond the longest deadline."""

START_SECONDS: Final = 120.0
COMMAND_SECONDS: Final = 900.0
TOLD_CHARS: Final = 500
STEP_SECONDS: Final = 0.2


def tell(text: str) -> None:
    """Print progress on stderr."""
    print(f"soak: {text}", file=sys.stderr, flush=True)


class Soak:
    """The soak at one place, in a folder of its own."""

    def __init__(self, place: Place, folder: Path, day: Day, agents: int, seed: int) -> None:
        self._place = place
        self._folder = folder
        self._day = day
        self._agents = agents
        self._chance = random.Random(seed)
        self._heard = Heard()
        self._sockets = [str(folder / f"gateway-{number}") for number in range(2)]
        self._indexes = [folder / f"index-{number}.sqlite" for number in range(2)]
        self._began = 0.0
        self._redacted: list[Asked] = []
        self._redactions: Counter[str] = Counter()
        self._server: list[Sample] = []
        self._findings: list[str] = []
        self._rows: list[MemoryRow] = []

    async def run(self, seconds: float) -> SoakRun:
        await self._command("archive", "--to", str(self._folder / "archive"))
        company = Company(await self._processes())
        await company.start()
        try:
            await self._until_begun()
            self._began = time.monotonic()
            await self._work(company, seconds)
            self._findings += await company.stop(CALLERS)
            await self._settle()
        finally:
            ended = await company.stop()
        self._findings += ended
        audit = await self._check()
        return SoakRun(
            seconds=seconds,
            speed=self._day.speed,
            agents=self._agents,
            sessions=len(audit.sessions),
            sealed=audit.sealed_count,
            events=audit.events_count,
            outcomes=dict(audit.how),
            kills=dict(company.kills),
            redactions=dict(self._redactions),
            errors=dict(self._heard.errors),
            memory=self._rows,
            findings=self._findings,
        )

    # --- the processes ----------------------------------------------------------------------------------------------

    async def _processes(self) -> list[Soaked]:
        tokens = self._place.ledger.tokens
        agent = (await tokens.create("agents", "agent", brings_rules=True, any_project=True)).text
        person = (await tokens.create("people", "approver")).text
        return [one for turn in range(2) for one in self._incarnations(turn, agent, person)]

    def _incarnations(self, turn: int, agent: str, person: str) -> list[Soaked]:
        url, speed, day = self._place.url, str(self._day.speed), self._day
        half = max(1, self._agents // 4)
        cli = ("workers.cli", "worker")
        idle = ("--older-than", day.text(IDLE_SECONDS), "--every", day.text(ROUND_SECONDS))
        index = str(self._indexes[turn])
        people = (speed, person, *self._sockets)
        named: list[tuple[str, bool, Arguments]] = [
            (
                "gateway",
                False,
                lambda _: ("workers.cli", "serve", "--url", url, "--listen", f"unix:{self._sockets[turn]}"),
            ),
            ("expiry", False, lambda _: (*cli, "expiry", "--url", url)),
            ("projector", False, lambda _: (*cli, "projector", "--url", url)),
            ("archiver", False, lambda _: (*cli, "archiver", "--url", url, *idle)),
            ("indexer", False, lambda _: (*cli, "indexer", "--url", url, "--file", index)),
            ("agents", True, lambda life: ("bench.soak.agents_child", url, f"a{turn}.{life}", str(half), speed)),
            (
                "agents over HTTP",
                True,
                lambda life: (
                    "bench.soak.http_agents_child",
                    f"h{turn}.{life}",
                    str(half),
                    speed,
                    agent,
                    *self._sockets,
                ),
            ),
            ("person", True, lambda life: ("bench.soak.people_child", url, f"person{turn}.{life}", *people)),
        ]
        return [
            Soaked(f"{name} {turn}", arguments, self._folder, self._heard.hear if tells else None)
            for name, tells, arguments in named
        ]

    # --- the work ---------------------------------------------------------------------------------------------------

    async def _until_begun(self) -> None:
        """Wait for the first answers: on a busy machine the processes take a while to start."""
        async with asyncio.timeout(START_SECONDS):
            while not self._heard.told:  # noqa: ASYNC110 - a short wait at the start
                await asyncio.sleep(STEP_SECONDS)

    async def _work(self, company: Company, seconds: float) -> None:
        """Work for so long: kill, redact and sample at their intervals."""
        stop = asyncio.Event()
        redacting = asyncio.create_task(self._redact_until(stop))
        kill_at = sample_at = 0.0
        while (passed := time.monotonic() - self._began) < seconds:
            if passed >= sample_at:
                sample_at = passed + self._day.seconds(SAMPLE_SECONDS)
                company.sample(passed, len(self._heard.told))
                await self._sample_server(passed)
            if passed >= kill_at:
                kill_at = passed + self._day.seconds(KILL_SECONDS)
                await company.kill_one()
            await asyncio.sleep(STEP_SECONDS)
        stop.set()
        await redacting
        self._rows = [row_of(one.name, one.samples) for one in company.members if one.samples]
        self._rows.append(row_of("server", self._server, SERVER_BYTES_A_REQUEST_MAX))
        self._findings += [f"the memory of {one.process} grows" for one in self._rows if one.flat is False]
        tell(f"{len(self._heard.told):,} requests in {passed:.0f} s; waiting for what is due")

    async def _sample_server(self, passed: float) -> None:
        info, clients = await self._place.info("memory"), await self._place.info("clients")
        sample = Sample(passed, int(info["used_memory"]), int(clients["connected_clients"]), len(self._heard.told))
        self._server.append(sample)

    async def _redact_until(self, stop: asyncio.Event) -> None:
        """Take the content of one settled request out of the log, from time to time."""
        while not stop.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(self._day.seconds(REDACTION_SECONDS)):
                    await stop.wait()
            if self._heard.redactable:
                await self._redact(self._chance.choice(self._heard.redactable))

    async def _redact(self, one: Asked) -> None:
        code, said = await self._run("redact", one.session, str(one.version), "--reason", "soak", "--yes")
        if code == 0:
            self._redacted.append(one)
            self._redactions["done"] += 1
        elif "sealed" in said:
            self._redactions["refused, because sealed"] += 1
        else:
            self._findings.append(f"redact {one.session} {one.version} ended with {code}: {said}")

    # --- the checks -------------------------------------------------------------------------------------------------

    async def _settle(self) -> None:
        """Let the workers alone end what is pending and claimed."""
        longest = self._day.seconds(max(2 * UNATTENDED_SECONDS, CLAIM_SECONDS))
        if not await until_nothing_is_due(self._place, longest + QUIET_SECONDS):
            due = await self._place.ledger.store.due(None, 3)
            self._findings.append(f"after {longest + QUIET_SECONDS:.0f} s something is due, or a view lags: {due}")
        # In a short run on a busy machine no session has rested long enough before.
        if not await until_sealed(self._place, self._day.seconds(IDLE_SECONDS) + QUIET_SECONDS):
            self._findings.append("no session was sealed, though archivers ran")
        self._findings += await until_indexed(self._place.ledger, self._indexes, QUIET_SECONDS)

    async def _check(self) -> Audit:
        if left := await outlived(f"{MARK}={self._folder}", QUIET_SECONDS):
            self._findings.append(f"processes that outlived their end: {left}")
        if keys := await keys_without_end(self._place):
            self._findings.append(f"keys that nothing ends: {keys}")
        tell("reading the log")
        audit = Audit()
        await audit.read(self._place.ledger)
        self._findings += audit.findings(self._heard)
        self._findings += await still_readable(self._place.ledger, self._redacted)
        for file in self._indexes:
            self._findings += wrong_in(file, audit.outcomes, self._redacted)
        for words in (("verify", "--all"), ("rebuild", "--verify")):
            tell(f"{' '.join(words)} of {audit.events_count:,} events")
            await self._command(*words)
        return audit

    async def _command(self, *words: str) -> None:
        """Run a command; a failure is a finding."""
        code, said = await self._run(*words)
        if code != 0:
            self._findings.append(f"`{' '.join(words)}` ended with {code}: {said}")

    async def _run(self, *words: str) -> tuple[int, str]:
        """Run a command; return its exit code and the end of its output."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "workers.cli", *words, "--url", self._place.url),
            cwd=ROOT,
            env={**os.environ, MARK: str(self._folder), "PERMISSION_LEDGER_FOLDS_MB": FOLDS_MB},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        async with asyncio.timeout(COMMAND_SECONDS):
            said, _ = await process.communicate()
        assert process.returncode is not None
        return process.returncode, said.decode(errors="replace").strip()[-TOLD_CHARS:]
