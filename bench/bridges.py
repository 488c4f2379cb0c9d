"""How long an agent waits where a rule decides: behind a bridge, and with a hook that starts for every call."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from bench.place import ROOT, Place
from bench.report import Fsync, Rounds, Row, percentile
from workers.bridges.claude.hooking import hook_line

WARM_UP_COUNT: Final = 20
"""The first asks open the session and fill caches; an agent makes them once."""

START_SECONDS: Final = 30.0
HOOKS_COUNT: Final = 10
RULES: Final = {"permissions": {"allow": ["Bash(git *)"]}}
STDIO: Final = ("--input-format", "stream-json")


class Bridges:
    """A gateway process, `bridge claude` around a client that only asks, and the hook's installed line."""

    name = "bridges"
    fsyncs: tuple[Fsync, ...] = ("everysec",)

    def __init__(self) -> None:
        self._rounds = Rounds(self.name)
        self._calls = 0

    async def start(self, place: Place) -> None:
        self._count = place.size(500, 50)
        folder = Path(place.stack.enter_context(tempfile.TemporaryDirectory(prefix="pl-bench-")))
        self._rules = folder / "rules.json"
        self._rules.write_text(json.dumps(RULES))
        address = f"unix:{folder / 'gateway.sock'}"
        token = await place.ledger.tokens.create("bench", "agent", brings_rules=True)
        ours = {"PERMISSION_LEDGER_HOME": str(folder), "PYTHONPATH": str(ROOT)}
        self._environment = {**os.environ, **ours, "PERMISSION_LEDGER_GATEWAY": address}
        self._environment["PERMISSION_LEDGER_TOKEN"] = token.text
        words = ("serve", "--listen", address, "--url", place.url)
        gateway = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "workers.cli", *words, cwd=ROOT, env=self._environment, stdout=asyncio.subprocess.PIPE
        )
        place.stack.push_async_callback(_ended, gateway)
        async with asyncio.timeout(START_SECONDS):
            assert gateway.stdout is not None
            while b"inbox" not in await gateway.stdout.readline():
                pass

    async def round(self, fsync: Fsync) -> None:
        times = await self._bridged()
        self._rounds.add(fsync, "bridge p50", percentile(times, 50))
        self._rounds.add(fsync, "bridge p95", percentile(times, 95))
        bare = await asyncio.to_thread(_processor_ms, [sys.executable, "-I", "-c", "pass"], [""] * HOOKS_COUNT, {})
        line = shlex.split(hook_line(["--rules", str(self._rules)]).removesuffix(" || exit 2"))
        hooked = await asyncio.to_thread(
            _processor_ms, line, [self._event() for _ in range(HOOKS_COUNT)], self._environment
        )
        self._rounds.add(fsync, "bare", bare)
        self._rounds.add(fsync, "hook", hooked)

    async def _bridged(self) -> list[float]:
        command = ("bridge", "claude", "--rules", str(self._rules), "--", sys.executable, "-m", "bench.bridge_client")
        bridge = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "workers.cli", *command, str(self._count + WARM_UP_COUNT), *STDIO),
            cwd=ROOT,
            env=self._environment,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=2**20,
        )
        out, _ = await bridge.communicate()
        told: list[dict[str, Any]] = [json.loads(line) for line in out.splitlines()]
        times: list[float] = next(one["ms"] for one in told if one["type"] == "bench")
        return times[WARM_UP_COUNT:]

    def _event(self) -> str:
        self._calls += 1
        said = {"session_id": "bench-hooks", "cwd": "/tmp", "hook_event_name": "PreToolUse"}
        call = {"tool_name": "Bash", "tool_input": {"command": "git status"}, "tool_use_id": f"h{self._calls}"}
        return json.dumps({**said, **call})

    def rows(self) -> list[Row]:
        asked = "a permission request that a rule decides, bridge and gateway"
        return [
            self._rounds.plain(f"{asked}, p50", "everysec", "bridge p50", "ms", at_most=5),
            self._rounds.plain(f"{asked}, p95", "everysec", "bridge p95", "ms", at_most=10),
            self._rounds.compared("a hook, its processor time", "everysec", "hook", "ms", "bare", at_most=2.2),
        ]


async def _ended(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.terminate()
    await process.communicate()


def _processor_ms(command: Sequence[str], inputs: Sequence[str], environment: Mapping[str, str]) -> float:
    """Of one start, from the end of the last to the end of the next; what else the machine does is left out."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    for text in inputs:
        subprocess.run(command, input=text, env=environment, capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime) * 1000 / len(inputs)
