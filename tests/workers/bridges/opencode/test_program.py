"""The bridge as a process that started the OpenCode server: however either ends, nothing stays pending."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Final

import pytest

from tests.support.forks import Fork
from tests.support.gateways import Person, RunningGateway
from tests.support.processes import ROOT, free_port
from tests.support.waiting import wait_until_async

SERVER: Final = """
import asyncio, os, signal, sys
from tests.support.opencode import OpenCodeServer

async def serve():
    server = OpenCodeServer()
    server.port = int(sys.argv[sys.argv.index("--port") + 1])
    await server.start()
    signal.signal(signal.SIGTERM, signal.SIG_IGN if "--stubborn" in sys.argv else signal.SIG_DFL)
    while not server.is_followed:
        await asyncio.sleep(0.01)
    server.ask()
    print(os.getpid(), flush=True)
    await asyncio.Event().wait()

asyncio.run(serve())
"""

Start = Callable[..., "Started"]


class Started:
    """The bridge, and the server that it started."""

    def __init__(self, gateway: RunningGateway, *words: str) -> None:
        program = [sys.executable, "-c", SERVER, "serve", "--port", str(free_port()), *words]
        self.bridge: subprocess.Popen[bytes] = Fork(
            ["bridge", "opencode", "--", *program],
            cwd=ROOT,
            env=gateway.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        assert self.bridge.stdout
        self.server_pid = int(self.bridge.stdout.readline())

    def end(self) -> None:
        self.bridge.kill()
        self.bridge.communicate()


@pytest.fixture
def start(gateway: RunningGateway) -> Iterator[Start]:
    running: list[Started] = []

    def start(*words: str) -> Started:
        running.append(Started(gateway, *words))
        return running[-1]

    yield start
    for one in running:
        one.end()


async def ended(ann: Person) -> str:
    row = await wait_until_async(lambda: ann.outcome("ses_1", "per_0001"), "the request to be settled")
    assert row is not None
    outcome: str = row["outcome"]
    return outcome


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP], ids=lambda one: one.name)
async def test_a_bridge_that_is_told_to_end_leaves_nothing_pending(
    start: Start, ann: Person, number: signal.Signals
) -> None:
    started = start()
    await wait_until_async(lambda: ann.pending("ses_1"), "the request")
    started.bridge.send_signal(number)
    assert await ended(ann) == "cancelled"
    started.bridge.wait(timeout=60)
    assert await ann.pending("ses_1") == []


@pytest.mark.slow
async def test_a_server_that_does_not_want_to_end_keeps_nothing_pending_meanwhile(start: Start, ann: Person) -> None:
    started = start("--stubborn")
    await wait_until_async(lambda: ann.pending("ses_1"), "the request")
    started.bridge.terminate()
    assert await ended(ann) == "cancelled"
    assert started.bridge.poll() is None, "the server has its time"
    assert started.bridge.wait(timeout=60) == 137


async def test_a_server_that_dies_leaves_nothing_pending(start: Start, ann: Person) -> None:
    started = start()
    await wait_until_async(lambda: ann.pending("ses_1"), "the request")
    os.kill(started.server_pid, signal.SIGKILL)
    assert started.bridge.wait(timeout=60) == 137
    assert await ended(ann) == "cancelled"
