"""The processes of a soak: started, killed with SIGKILL and started again, sampled, and stopped at the end."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from bench.place import ROOT
from bench.soak.memory import Sample, memory_of

STOP_SECONDS: Final = 30.0
"""The time in which a process must end after SIGTERM."""

WELL: Final = (0, -signal.SIGTERM)
"""Exit codes after SIGTERM; a process that has just been started is ended by the signal itself."""

MARK: Final = "PERMISSION_LEDGER_HOME"
"""The variable that names the soak's folder in the environment of each of its processes."""

FOLDS_MB: Final = "8"
"""The smallest cache of sessions, so that it is full after the warm-up."""

Arguments = Callable[[int], Sequence[str]]
"""The arguments of the N-th incarnation of a process."""


class Soaked:
    """One place for a process: the process in it, and the samples of the present incarnation."""

    def __init__(self, name: str, arguments: Arguments, folder: Path, hear: Callable[[str], None] | None) -> None:
        self.name = name
        self.samples: list[Sample] = []
        self.lives = 0
        self._arguments = arguments
        self._folder = folder
        self._hear = hear
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None

    @property
    def kind(self) -> str:
        return self.name.rpartition(" ")[0]

    async def start(self) -> None:
        self.samples = []
        environment = {**os.environ, MARK: str(self._folder), "PERMISSION_LEDGER_FOLDS_MB": FOLDS_MB}
        with (self._folder / "log").open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                *("-m", *self._arguments(self.lives)),
                cwd=ROOT,
                env=environment,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE if self._hear else log,
                stderr=log,
            )
        self.lives += 1
        if self._hear is not None:
            self._reading = asyncio.create_task(self._read(self._process, self._hear))

    async def kill9(self) -> None:
        """Kill the process with SIGKILL, and start the next incarnation at once."""
        assert self._process is not None
        if self._process.returncode is None:
            self._process.kill()
        await self._ended()
        await self.start()

    async def stop(self) -> int | None:
        """Stop the process with SIGTERM; return its exit code, or None if it did not end in time and was killed."""
        assert self._process is not None
        if self._process.returncode is None:
            self._process.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(STOP_SECONDS):
                return await self._ended()
        except TimeoutError:
            self._process.kill()
            await self._ended()
            return None

    def sample(self, at_seconds: float, requests: int) -> None:
        assert self._process is not None
        found = memory_of(self._process.pid)
        if found is not None:
            self.samples.append(Sample(at_seconds, *found, requests))

    @property
    def died(self) -> bool:
        """Return whether the process has ended by itself."""
        return self._process is not None and self._process.returncode is not None

    async def _ended(self) -> int:
        assert self._process is not None
        code = await self._process.wait()
        if self._reading is not None:
            await self._reading
            self._reading = None
        return code

    async def _read(self, process: asyncio.subprocess.Process, hear: Callable[[str], None]) -> None:
        assert process.stdout is not None
        while line := await process.stdout.readline():
            hear(line.decode())


class Company:
    """All processes of a soak. The first of each kind lives through it; the others are killed."""

    def __init__(self, members: Sequence[Soaked]) -> None:
        self.members = list(members)
        seen: set[str] = set()
        self._mortal: list[Soaked] = []
        for one in members:
            if one.kind in seen:
                self._mortal.append(one)
            seen.add(one.kind)
        self.kills: Counter[str] = Counter()
        self._turn = 0

    async def start(self) -> None:
        for one in self.members:
            await one.start()

    async def kill_one(self) -> None:
        """Kill a process of the next kind."""
        one = self._mortal[self._turn % len(self._mortal)]
        self._turn += 1
        await one.kill9()
        self.kills[one.kind] += 1

    def sample(self, at_seconds: float, requests: int) -> None:
        for one in self.members:
            one.sample(at_seconds, requests)

    async def stop(self, kinds: Sequence[str] = ()) -> list[str]:
        """Stop the processes of some kinds, or all that are left; return those that did not end well."""
        chosen = [one for one in self.members if not kinds or one.kind in kinds]
        self.members = [one for one in self.members if one not in chosen]
        before = [f"{one.name} ended by itself" for one in chosen if one.died]
        codes = await asyncio.gather(*(one.stop() for one in chosen))
        ended = zip(chosen, codes, strict=True)
        return before + [f"{one.name} ended with {code} after SIGTERM" for one, code in ended if code not in WELL]
