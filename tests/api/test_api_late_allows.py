"""An allow counts for the agent only if it is not revoked and not in doubt when it is returned."""

from __future__ import annotations

import asyncio

import pytest

from ledger import InDoubtError, Ledger, Result
from ledger.client.calls import Calls

TIMEOUT_SECONDS = 300.0


async def test_an_allow_that_is_not_yet_safe_when_time_runs_out_is_not_told(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await ledger.session("ses_1")
    await session.submit("bash", ["ls"], request_id="r1")
    await session.reply("r1", "once", actor="ann")
    looked: list[Result] = []
    loop = asyncio.get_running_loop()
    by_the_loop = loop.time

    async def unsafe(_: Calls, result: Result) -> Result:
        looked.append(result)
        if len(looked) == 1:
            # Here the time limit is reached, however slow the machine is.
            monkeypatch.setattr(loop, "time", lambda: by_the_loop() + TIMEOUT_SECONDS)
            await asyncio.Event().wait()
        raise InDoubtError("no replica has it")

    monkeypatch.setattr(Calls, "safe", unsafe)
    with pytest.raises(InDoubtError):
        await session.wait("r1", timeout=TIMEOUT_SECONDS)
    assert len(looked) == 2
