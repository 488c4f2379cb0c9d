"""Rules made stricter by another process while a request is pending."""

from __future__ import annotations

import asyncio

import pytest

from ledger import DeniedError, Ledger
from ledger.core.errors import EditDeniedError
from tests.api.actors import ANN, OpenLedger, ask_and_wait, events_of, pend, raised

ASK = [{"permission": "bash", "pattern": "*", "action": "ask"}]
DENY = [*ASK, {"permission": "bash", "pattern": "git push*", "action": "deny"}]


@pytest.mark.parametrize("answers_at", ["the asker's ledger", "the ledger that changed the rules"])
async def test_a_deny_of_another_process_stops_a_yes_and_both_sides_are_told(
    ledger: Ledger, open_ledger: OpenLedger, answers_at: str
) -> None:
    session = await ledger.session("ses_1", project="shop", rules=ASK)
    asking = await ask_and_wait(session, "r1", always=["git push *"])
    elsewhere = await open_ledger()
    changed = await elsewhere.session("ses_1", rules=DENY)
    replier = session if answers_at == "the asker's ledger" else changed
    answered = await replier.reply("r1", "always", actor=ANN)
    assert (answered.outcome, answered.code, answered.reply, answered.by.name) == ("denied", "DENIED", "always", ANN)
    error = await raised(asking)
    assert isinstance(error, DeniedError)
    assert "git push*" in error.text
    assert [one.grant.pattern for one in await session.approved()] == ["git push *"]


async def test_a_deny_that_comes_at_the_same_time_as_the_yes_is_before_it_or_after_it(
    ledger: Ledger, open_ledger: OpenLedger
) -> None:
    session = await ledger.session("ses_1", rules=ASK)
    elsewhere = await open_ledger()
    for number in range(8):
        await (await elsewhere.session("ses_1", rules=ASK)).state()
        await pend(session, f"r{number}")
        replied, _ = await asyncio.gather(
            session.reply(f"r{number}", "once", actor=ANN), elsewhere.session("ses_1", rules=DENY)
        )
        after_the_deny = (await events_of(session))[-1] == "replied"
        assert replied.outcome == ("denied" if after_the_deny else "allowed")


async def test_a_session_that_ignores_late_denies_allows(ledger: Ledger) -> None:
    session = await ledger.session("ses_1", rules=ASK, late_denies="ignore")
    await pend(session, "r1")
    await ledger.session("ses_1", rules=DENY)
    assert (await session.reply("r1", "once", actor=ANN)).outcome == "allowed"


async def test_a_denied_edit_leaves_the_request_to_be_answered(ledger: Ledger) -> None:
    session = await ledger.session("ses_1", rules=DENY)
    await pend(session, "r1", "make", tool_name="bash", tool_input={"command": "make"})
    error = await raised(session.reply("r1", "once", actor=ANN, updated_input={"command": "git push -f"}))
    assert isinstance(error, EditDeniedError)
    assert [reason["text"] for reason in error.reasons] == ["bash git push* deny"]
    answered = await session.reply("r1", "once", actor=ANN, updated_input={"command": "make test"})
    assert (answered.outcome, answered.updated_input) == ("allowed", {"command": "make test"})
