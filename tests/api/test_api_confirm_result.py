"""Codelia's confirm result is an answer like any other."""

from __future__ import annotations

import pytest

from ledger import CorrectedError, InputError, Ledger


async def test_a_confirm_result_that_remembers_counts_as_always(ledger: Ledger) -> None:
    session = await ledger.session("ses_1")
    await session.submit("bash", ["ls"], always=["ls *"], request_id="r1")

    answered = await ledger.reply("r1", {"ok": True, "remember": True}, actor="ann")

    assert (answered.reply, answered.outcome) == ("always", "allowed")


async def test_the_reason_of_a_confirm_result_is_the_feedback(ledger: Ledger) -> None:
    session = await ledger.session("ses_1")
    await session.submit("bash", ["ls"], request_id="r1")
    await session.reply("r1", {"ok": False, "reason": "use rg"}, actor="ann")

    with pytest.raises(CorrectedError, match="use rg"):
        await session.ask("bash", ["ls"], request_id="r1")


async def test_two_reasons_for_one_answer_decide_nothing(ledger: Ledger) -> None:
    session = await ledger.session("ses_1")
    await session.submit("bash", ["ls"], request_id="r1")

    with pytest.raises(InputError, match="brings its own `reason`"):
        await session.reply("r1", {"ok": False, "reason": "use rg"}, message="or not")

    assert [one.request.request_id for one in await session.pending()] == ["r1"]


async def test_the_reason_of_a_confirm_result_is_what_the_caller_of_codelia_is_told(ledger: Ledger) -> None:
    session = await ledger.session("ses_1", dialect="codelia")
    await session.submit("bash", ["ls"], request_id="r1")
    answered = await session.reply("r1", {"ok": False, "reason": "not now"}, actor="ann")
    assert answered.message == "Permission denied: not now"
    with pytest.raises(CorrectedError) as told:
        await session.ask("bash", ["ls"], request_id="r1")
    assert (told.value.text, told.value.agent) == ("Permission denied: not now", "continue")
