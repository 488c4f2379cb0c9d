"""An allow that rests on a project's grant counts only if nothing newer takes the grant back."""

from __future__ import annotations

import asyncio
from typing import Final

import pytest

from ledger import Ledger
from ledger.core.events import Actor
from ledger.session.commands import GivenReply, OutdatedRulesError, Repeat
from tests.api.actors import ANN, OpenLedger, ask_and_wait, before_the_next_append, events_of, pend, raised

PERSON: Final = Actor("person", ANN, "web")


async def test_an_allow_whose_grant_was_revoked_meanwhile_is_reopened_before_anything_is_returned(
    ledger: Ledger, open_ledger: OpenLedger
) -> None:
    session = await ledger.session("ses_1", project="shop")
    made = await ledger.grant_in_project("shop", "bash", "git push *")
    elsewhere = await open_ledger()
    before_the_next_append(ledger, lambda: elsewhere.revoke(made.grant.grant_id))
    asked = await session.submit("bash", ["git push"], request_id="call_1")
    assert asked.outcome is None
    assert await events_of(session) == ["session_opened", "asked", "reopened"]
    assert (await session.reply("call_1", "once", actor=ANN, round=2)).outcome == "allowed"


async def test_a_reopened_ask_waits_for_its_answer(ledger: Ledger, open_ledger: OpenLedger) -> None:
    session = await ledger.session("ses_1", project="shop")
    made = await ledger.grant_in_project("shop", "bash", "git push *")
    elsewhere = await open_ledger()
    before_the_next_append(ledger, lambda: elsewhere.revoke(made.grant.grant_id))
    asking = asyncio.create_task(session.ask("bash", ["git push"], request_id="call_1"))
    seen: list[str] = []
    async for event in session.events():
        seen.append(event.type)
        if event.type == "reopened":
            break
    assert seen == ["session_opened", "asked", "reopened"]
    await elsewhere.reply("call_1", "reject", round=2)
    assert (await raised(asking)).code == "REJECTED"


async def test_an_allow_that_still_holds_after_a_change_of_the_project_is_not_reopened(
    ledger: Ledger, open_ledger: OpenLedger
) -> None:
    session = await ledger.session("ses_1", project="shop")
    await ledger.grant_in_project("shop", "bash", "git push *")
    elsewhere = await open_ledger()
    other = await elsewhere.grant_in_project("shop", "bash", "ls *")
    before_the_next_append(ledger, lambda: elsewhere.revoke(other.grant.grant_id))
    assert (await session.submit("bash", ["git push"])).outcome == "allowed"
    assert await events_of(session) == ["session_opened", "asked"]


async def test_attaching_to_an_allow_whose_grant_was_revoked_before_it_was_returned_reopens_it(
    ledger: Ledger, open_ledger: OpenLedger
) -> None:
    """The asker died between its append and its read of the project: the retry reads instead."""
    session = await ledger.session("ses_1", project="shop")
    made = await ledger.grant_in_project("shop", "bash", "git push *")
    await session.ask("bash", ["git push"], request_id="call_1")
    elsewhere = await open_ledger()
    await elsewhere.revoke(made.grant.grant_id)
    retried = await (await elsewhere.session("ses_1")).submit("bash", ["git push"], request_id="call_1")
    assert retried.outcome is None
    assert await events_of(session) == ["session_opened", "asked", "reopened"]


async def test_a_repeated_answer_to_a_request_that_was_reopened_meanwhile_repeats_nothing(
    ledger: Ledger, open_ledger: OpenLedger
) -> None:
    session = await ledger.session("ses_1", project="shop")
    made = await ledger.grant_in_project("shop", "bash", "git push *")
    await session.submit("bash", ["git push"], request_id="call_1")
    elsewhere = await open_ledger()
    behind = await elsewhere.attach("ses_1")
    assert "call_1" in (await behind.state()).settled
    await ledger.revoke(made.grant.grant_id)
    assert (await session.submit("bash", ["git push"], request_id="call_1")).outcome is None
    with pytest.raises(OutdatedRulesError, match="`call_1` was reopened meanwhile"):
        await behind.stream.submit(Repeat(actor=PERSON, request_id="call_1", given=GivenReply(reply="once")))
    assert (await behind.reply("call_1", "once", actor=ANN, round=2)).outcome == "allowed"


async def test_in_compat_v1_what_was_allowed_over_a_deny_is_denied_when_the_grant_is_gone(
    ledger: Ledger, open_ledger: OpenLedger
) -> None:
    rules = [{"permission": "bash", "pattern": "rm *", "action": "deny"}]
    session = await ledger.session("ses_1", project="shop", rules=rules, options={"compat": "v1"})
    made = await ledger.grant_in_project("shop", "bash", "rm *")
    elsewhere = await open_ledger()
    before_the_next_append(ledger, lambda: elsewhere.revoke(made.grant.grant_id))
    error = await raised(session.ask("bash", ["rm x"], request_id="call_1"))
    assert (error.code, await events_of(session)) == ("DENIED", ["session_opened", "asked", "reopened"])


async def test_what_a_person_allowed_is_not_reopened_when_a_grant_goes(ledger: Ledger, open_ledger: OpenLedger) -> None:
    session = await ledger.session("ses_1", project="shop")
    asking = await ask_and_wait(session, "call_1", always=["git push *"])
    await session.reply("call_1", "always", actor=ANN)
    assert (await asking).outcome == "allowed"
    [made] = await session.approved()
    await session.revoke(made.grant.grant_id)
    elsewhere = await (await open_ledger()).session("ses_1")
    retried = await elsewhere.ask("bash", ["git push"], always=["git push *"], request_id="call_1")
    assert (retried.outcome, retried.reply) == ("allowed", "always")


async def test_an_ask_during_which_a_grant_appears_is_released_by_it(ledger: Ledger, open_ledger: OpenLedger) -> None:
    session = await ledger.session("ses_1", project="shop")
    await session.approved()
    elsewhere = await open_ledger()
    before_the_next_append(ledger, lambda: elsewhere.grant_in_project("shop", "bash", "git push *"))
    result = await session.submit("bash", ["git push"], request_id="call_1")
    assert (result.outcome, result.reply) == ("allowed", "always")


@pytest.mark.parametrize("stricter", ["deny", "ask"])
async def test_rules_that_change_between_decision_and_append_are_obeyed(
    ledger: Ledger, open_ledger: OpenLedger, stricter: str
) -> None:
    rules = [{"permission": "bash", "pattern": "*", "action": "allow"}]
    session = await ledger.session("ses_1", rules=rules)
    elsewhere = await open_ledger()
    new_rules = [{"permission": "bash", "pattern": "*", "action": stricter}]
    before_the_next_append(ledger, lambda: elsewhere.session("ses_1", rules=new_rules))
    result = await session.submit("bash", ["git push"])
    assert result.outcome == {"deny": "denied", "ask": None}[stricter]
    assert await events_of(session) == ["session_opened", "policy_changed", "asked"]


async def test_always_releases_by_the_rules_of_now(ledger: Ledger, open_ledger: OpenLedger) -> None:
    session = await ledger.session("ses_1")
    await pend(session, "call_1", "git push", always=["git push *"])
    elsewhere = await open_ledger()
    before_the_next_append(ledger, lambda: elsewhere.session("ses_1", agent="x", rules=[]))
    assert (await session.reply("call_1", "always")).outcome == "allowed"
