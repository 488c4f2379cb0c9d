"""An allow counts for the agent only when nothing has taken it back, and nothing is left in doubt, by then."""

from __future__ import annotations

import asyncio

import pytest

from ledger import InDoubtError, Ledger, RejectedError, Result, Session

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

    async def unsafe(_: Session, result: Result) -> Result:
        looked.append(result)
        if len(looked) == 1:
            # Here time runs out, however slow the machine is.
            monkeypatch.setattr(loop, "time", lambda: by_the_loop() + TIMEOUT_SECONDS)
            await asyncio.Event().wait()
        raise InDoubtError("no replica has it")

    monkeypatch.setattr(Session, "_safe", unsafe)
    with pytest.raises(InDoubtError):
        await session.wait("r1", timeout=TIMEOUT_SECONDS)
    assert len(looked) == 2


async def test_a_tool_call_that_a_grant_released_waits_again_when_the_grant_is_gone(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await ledger.session("ses_1", project="shop", cascade_always="project")
    wait = Session.wait
    waited: list[str] = []

    async def interfered(self: Session, request_id: str, timeout: float | None = None) -> Result:
        waited.append(request_id)
        if len(waited) > 1:
            await self.reply(request_id, "reject", actor="ann")
            return await wait(self, request_id, timeout)
        made = await ledger.grant_in_project("shop", "webfetch", "*", actor="ann")
        released = await wait(self, request_id, timeout)
        await ledger.revoke(made.grant.grant_id, actor="ann")
        return released

    monkeypatch.setattr(Session, "wait", interfered)
    with pytest.raises(RejectedError):
        await session.ask_tool("webfetch", {"url": "https://example.com"}, request_id="r1")
    assert waited == ["r1", "r1"]
