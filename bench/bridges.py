"""Waiting time of an agent whose call a rule decides: behind a bridge, and with a hook that starts for every call."""

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
from http.client import HTTPConnection
from pathlib import Path
from time import perf_counter
from typing import Any, Final

from bench.opencode_server import OpenCodeServer
from bench.place import ROOT, Place, Probe
from bench.report import Asked, Fsync, percentile
from workers.bridges import hook_entries
from workers.bridges.hook_entries import AGENT

try:
    from workers.bridges.hook_entries import own_line
except ImportError:  # an earlier version, beside this one in `bench.versions`
    from workers.bridges.hook_lines import own_line  # type: ignore[import-not-found,no-redef]

OPTIONS_HEADER: Final[str | None] = getattr(hook_entries, "OPTIONS_HEADER", None)
"""None in a version whose gateway answers no hooks."""

WARM_UP_COUNT: Final = 20
"""Asks before the measurement: they open the session and fill caches, which an agent does once."""

START_SECONDS: Final = 30.0
HOOKS_COUNT: Final = 10
GIT_STATUS: Final = {"command": "git status"}
RULES: Final[dict[str, Any]] = {
    "claude": {"permissions": {"allow": ["Bash(git *)", "Read(//tmp/**)"]}},
    "opencode": {"permission": {"bash": {"git *": "allow"}}},
    "codelia": {"permissions": {"allow": [{"tool": "bash", "command": "git"}]}},
}
"""A rule file by dialect."""

ON_STDIO: Final = {"claude": "claude", "acp": "opencode", "codex": "opencode", "codelia": "codelia"}
"""The bridges between two programs, and the dialect of each."""

STDIO: Final = ("--input-format", "stream-json")
"""Options that tell `bridge claude` that the client speaks on stdio; the client itself ignores them."""


class Bridges(Probe):
    """A gateway process; each bridge with a client or a server that only asks; and an installed hook's command line."""

    name = "bridges"

    def __init__(self, *, quick: bool = False) -> None:
        super().__init__(quick=quick)
        self._calls = 0
        self._sessions = 0

    async def start(self, place: Place) -> None:
        self._port = 0
        self._count = self.size(500, 50)
        folder = Path(place.stack.enter_context(tempfile.TemporaryDirectory(prefix="pl-bench-")))
        self._rules = {dialect: folder / f"{dialect}.json" for dialect in RULES}
        for dialect, rules in RULES.items():
            self._rules[dialect].write_text(json.dumps(rules))
        address = f"unix:{folder / 'gateway.sock'}"
        token = await place.ledger.tokens.create("bench", "agent", brings_rules=True, any_project=True)
        ours = {"PERMISSION_LEDGER_HOME": str(folder), "PYTHONPATH": str(ROOT)}
        self._environment = {**os.environ, **ours, "PERMISSION_LEDGER_GATEWAY": address}
        self._environment["PERMISSION_LEDGER_TOKEN"] = token.text
        ours_alone = await place.ledger.tokens.create("hook", "agent", projects=("bench",), folders=("/tmp",))
        self._hook_token = ours_alone.text
        listening = ("--listen", address, "--listen", "127.0.0.1:0")
        words = ("serve", *listening, "--url", place.url, "--rules", f"claude={self._rules['claude']}")
        gateway = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "workers.cli", *words, cwd=ROOT, env=self._environment, stdout=asyncio.subprocess.PIPE
        )
        place.stack.push_async_callback(_ended, gateway)
        async with asyncio.timeout(START_SECONDS):
            assert gateway.stdout is not None
            while b"inbox" not in (line := await gateway.stdout.readline()):
                if b"http://127.0.0.1:" in line:
                    self._port = int(line.rpartition(b":")[2])

    async def round(self, fsync: Fsync) -> None:
        for name in ON_STDIO:
            self._add(fsync, name, await self._bridged(name))
        self._add(fsync, "opencode", await self._beside_opencode())
        if OPTIONS_HEADER is not None:
            self._add(fsync, "hook over HTTP", await asyncio.to_thread(self._over_http, OPTIONS_HEADER))
        bare = await asyncio.to_thread(_processor_ms, [sys.executable, "-I", "-c", "pass"], [""] * HOOKS_COUNT, {})
        line = shlex.split(own_line(AGENT, ["--rules", str(self._rules["claude"])]).removesuffix(" || exit 2"))
        hooked = await asyncio.to_thread(
            _processor_ms, line, [self._event() for _ in range(HOOKS_COUNT)], self._environment
        )
        self._rounds.add(fsync, "bare", bare)
        self._rounds.add(fsync, "hook", hooked)

    def _add(self, fsync: Fsync, name: str, times: Sequence[float]) -> None:
        for percent in (50, 95):
            self._rounds.add(fsync, f"{name} p{percent}", percentile(times, percent))

    async def _bridged(self, name: str) -> list[float]:
        """Return the times measured by a client that runs behind the bridge."""
        words = ("bridge", name, "--rules", str(self._rules[ON_STDIO[name]]), "--session", self._new_session(name))
        client = (sys.executable, "-m", "bench.bridge_client", name, str(self._count + WARM_UP_COUNT))
        bridge = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "workers.cli", *words, "--", *client, *STDIO),
            cwd=ROOT,
            env=self._environment,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=2**20,
        )
        assert bridge.stdin is not None
        assert bridge.stdout is not None
        # The client's stdin stays open: an agent may end when its host does.
        while line := await bridge.stdout.readline():
            told = json.loads(line)
            if told.get("type") == "bench":
                break
        bridge.stdin.close()
        await bridge.wait()
        times: list[float] = told["ms"]
        return times[WARM_UP_COUNT:]

    async def _beside_opencode(self) -> list[float]:
        """Return the times from the event that asks to the answer at the server."""
        server = OpenCodeServer()
        await server.start()
        words = ("bridge", "opencode", "--url", server.url, "--rules", str(self._rules["opencode"]))
        bridge = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "workers.cli", *words, "--session", self._new_session("opencode")),
            cwd=ROOT,
            env=self._environment,
        )
        try:
            async with asyncio.timeout(START_SECONDS):
                await server.followed()
            times = [await server.ask(number) for number in range(self._count + WARM_UP_COUNT)]
        finally:
            await _ended(bridge)
            await server.close()
        return times[WARM_UP_COUNT:]

    def _over_http(self, options: str) -> list[float]:
        """Return the times of the gateway's answers to a hook: a Bash and a Read in turn, each by a connection of its own."""
        headers = {"Authorization": f"Bearer {self._hook_token}", "Content-Type": "application/json"}
        headers[options] = "--project bench"
        times = []
        for number in range(self._count + WARM_UP_COUNT):
            body = self._event() if number % 2 else self._event("Read", {"file_path": "/tmp/a"})
            since = perf_counter()
            connection = HTTPConnection("127.0.0.1", self._port)
            connection.request("POST", "/v1/hooks/claude", body, headers)
            answer = connection.getresponse().read()
            times.append((perf_counter() - since) * 1000)
            connection.close()
            assert b'"allow"' in answer, answer
        return times[WARM_UP_COUNT:]

    def _new_session(self, name: str) -> str:
        self._sessions += 1
        return f"bench-{name}-{self._sessions}"

    def _event(self, tool: str = "Bash", tool_input: Mapping[str, str] = GIT_STATUS) -> str:
        self._calls += 1
        said = {"session_id": "bench-hooks", "cwd": "/tmp", "hook_event_name": "PreToolUse"}
        call = {"tool_name": tool, "tool_input": tool_input, "tool_use_id": f"h{self._calls}"}
        return json.dumps({**said, **call})

    def asked(self) -> list[Asked]:
        asked = "a permission request that a rule decides"
        limits = ((50, 2), (95, 3))
        over_http = Asked(f"{asked}, a hook over HTTP, p95", "everysec", "hook over HTTP p95", "ms", at_most=6)
        return [
            *([] if OPTIONS_HEADER is None else [over_http]),
            *(
                Asked(f"{asked}, {name}, p{percent}", "everysec", f"{name} p{percent}", "ms", at_most=limit)
                for name in (*ON_STDIO, "opencode")
                for percent, limit in limits
            ),
            Asked("a hook, its processor time", "everysec", "hook", "ms", "bare", at_most=2.2),
        ]


async def _ended(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.terminate()
    await process.communicate()


def _processor_ms(command: Sequence[str], inputs: Sequence[str], environment: Mapping[str, str]) -> float:
    """Return the processor time of one start, from one end to the next, without that of other processes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    for text in inputs:
        subprocess.run(command, input=text, env=environment, capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime) * 1000 / len(inputs)
