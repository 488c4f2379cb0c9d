"""One process for pure work, seen from the gateway: started when needed, killed when over budget."""

from __future__ import annotations

import asyncio
import os
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from workers.runtime.children import own_environment, own_module
from workers.runtime.frames import HEAD_BYTES, framed, length_of

COMMAND: Final = tuple(own_module("workers.gateway.beside.child"))
_KEPT: Final = ("HOME", "LANG", "LC_ALL", "PATH", "PYTHONPATH", "SYSTEMROOT", "TMPDIR")
"""Environment variables that the process gets; the rest may contain passwords and tokens."""


class Worker:
    """Runs one piece at a time."""

    def __init__(self) -> None:
        self._process: Process | None = None
        self._is_ended = False

    async def do(self, piece: Mapping[str, Any], wall_seconds: float) -> dict[str, Any] | None:
        """Return the answer; None where the process ended or exceeded the time limit."""
        process = await self._running()
        is_whole = False
        try:
            # `end` may have been called during the start, when there was no process to kill yet.
            if self._is_ended:
                return None
            async with asyncio.timeout(wall_seconds):
                assert process.stdin is not None
                assert process.stdout is not None
                process.stdin.write(framed(msgspec.json.encode(piece)))
                await process.stdin.drain()
                head = await process.stdout.readexactly(HEAD_BYTES)
                answer = await process.stdout.readexactly(length_of(head))
            is_whole = True
        except (TimeoutError, EOFError, ConnectionError):
            return None
        finally:
            # Also when the caller was cancelled: its answer must not become the next caller's.
            if not is_whole:
                await self.close()
        found: dict[str, Any] = msgspec.json.decode(answer)
        return found

    async def _running(self) -> Process:
        if self._process is None or self._process.returncode is not None:
            environment = {name: value for name, value in own_environment().items() if name in _KEPT}
            self._process = await asyncio.create_subprocess_exec(
                *COMMAND, stdin=PIPE, stdout=PIPE, env=environment, cwd=os.sep
            )
        return self._process

    async def end(self) -> None:
        """Kill the process for good: a piece in progress ends with None."""
        self._is_ended = True
        await self.close()

    async def close(self) -> None:
        """Kill the process; the next piece starts another one."""
        process, self._process = self._process, None
        if process is None:
            return
        if process.returncode is None:
            process.kill()
        await asyncio.shield(process.wait())
