"""The processes of the demo: two workers, an agent and a person."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Final, Self

from workers.runtime.children import end, own_command, own_environment, own_module

TAIL_LINES: Final = 8


class Member:
    """One process, and its output on stderr."""

    def __init__(self, name: str, process: asyncio.subprocess.Process, log: Path) -> None:
        self.name = name
        self.process = process
        self._log = log

    @property
    def failed(self) -> bool:
        return self.process.returncode not in (None, 0)

    def last_words(self) -> str:
        """Return its exit code and the end of its log."""
        lines = self._log.read_text(errors="replace").splitlines()[-TAIL_LINES:]
        return "\n  ".join([f"the {self.name} ended with exit code {self.process.returncode}", *lines])


class Cast:
    """The processes, started one by one and ended together."""

    def __init__(self, url: str, logs: Path) -> None:
        # Not on the command lines, where every user of the machine could read a password in it.
        self._environment = {**own_environment(), "PERMISSION_LEDGER_URL": url}
        self._logs = logs
        self.members: list[Member] = []

    async def worker(self, name: str) -> None:
        """Start an expiry worker or a projector, as `permission-ledger worker` does."""
        await self._start(name, own_command("worker", name, "--with-parent", str(os.getpid())))

    async def actor(self, name: str, module: str, *arguments: str) -> None:
        await self._start(name, own_module(module, *arguments))

    async def _start(self, name: str, command: list[str]) -> None:
        log = self._logs / f"{name}.log"
        with log.open("wb") as stderr:
            process = await asyncio.create_subprocess_exec(
                *command,
                env=self._environment,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=stderr,
                stderr=stderr,
                start_new_session=True,
            )
        self.members.append(Member(name, process, log))

    async def until_one_fails(self) -> Member:
        """Return the first that ends with another exit code than 0; waits for ever while none does."""
        ending = {asyncio.create_task(one.process.wait(), name=f"wait for {one.name}"): one for one in self.members}
        try:
            waiting = set(ending)
            while True:
                done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    if ending[task].failed:
                        return ending[task]
                if not waiting:
                    await asyncio.Event().wait()
        finally:
            for task in ending:
                task.cancel()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await asyncio.gather(*(end(one.process) for one in self.members))


async def output_of(url: str, *arguments: str) -> tuple[int, str]:
    """Return exit code and output of one of our commands."""
    process = await asyncio.create_subprocess_exec(
        *own_command(*arguments),
        env={**own_environment(), "PERMISSION_LEDGER_URL": url},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        output, _ = await process.communicate()
    finally:
        await end(process)
    return process.returncode or 0, output.decode(errors="replace")
