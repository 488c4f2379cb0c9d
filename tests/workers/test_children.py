"""Child processes are ended, whatever happens meanwhile."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import PIPE

import pytest

from tests.support.waiting import pause
from workers.runtime import children

STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); signal.pause()"


async def test_a_process_has_ended_when_its_end_was_cancelled_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(children, "END_SECONDS", 0.5)
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", STUBBORN, stdout=PIPE)
    assert process.stdout is not None
    assert await process.stdout.readline() == b"up\n"
    ending = asyncio.create_task(children.surely_end(process))
    for _ in range(2):
        await pause()
        ending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await ending
    assert process.returncode is not None
