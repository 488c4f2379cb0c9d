"""Freezes as programs use them: acknowledged, nothing is allowed within their reach by any process."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import pytest

from ledger import DeniedError, FrozenError, Ledger, RejectedError, Session
from ledger.client.session import Session as SessionHandle
from ledger.core.errors import InDoubtError, StoreError
from ledger.core.events import Frozen
from ledger.log.tail import read_events
from ledger.stores.port import FreezeFlag, Position, StreamKey
from ledger.testing import TestClock
from tests.api.actors import ANN, OpenLedger, ask_and_wait, events_of, outcome_of, pend, raised
from tests.support.waiting import wait_until_async

READS: Final = [{"permission": "read", "pattern": "*", "action": "allow"}]
FREEZES: Final = StreamKey("access", "freeze")


async def opened(ledger: Ledger, session_id: str = "ses_1", project: str | None = "shop", **more: Any) -> Session:
    return await ledger.session(session_id, project=project, rules=READS, **more)


async def read(session: Session, request_id: str) -> str | None:
    return (await session.submit("read", ["a.txt"], request_id=request_id)).outcome


async def test_after_the_acknowledgement_nothing_is_allowed_by_any_process(
    ledger: Ledger, open_ledger: OpenLedger
) -> None:
    """Not even by one that has cached its streams before, and never heard of freezes."""
    session = await opened(ledger)
    assert await read(session, "r1") == "allowed"
    other = await open_ledger()
    await other.freezes.freeze(reason="a leak", actor=ANN)
    assert await read(session, "r2") is None
    assert await read(await opened(await open_ledger()), "r3") is None
    assert await events_of(session) == ["session_opened", "asked", "asked", "asked"]


async def test_a_call_that_was_allowed_before_is_not_told_allowed_again(
    ledger: Ledger, open_ledger: OpenLedger
) -> None:
    """Not by a process that never heard of freezes; the log still has the allow."""
    session = await opened(ledger)
    assert await read(session, "r1") == "allowed"
    other = await open_ledger()
    await other.freezes.freeze("shop", reason="a leak", actor=ANN)
    for asked in (read(session, "r1"), session.result("r1"), session.wait("r1"), session.wait("r1", 0)):
        error = await raised(asked)
        assert isinstance(error, FrozenError)
        assert (error.request_id, error.session, error.data["reason"]) == ("r1", "ses_1", "a leak")
    assert (await session.state()).settled["r1"].outcome == "allowed"
    await other.freezes.unfreeze("shop")
    assert [await read(session, "r1"), (await session.wait("r1")).outcome] == ["allowed", "allowed"]


async def test_what_was_refused_is_told_in_a_freeze_as_before(ledger: Ledger) -> None:
    session = await opened(ledger)
    await pend(session, "r1")
    await session.reply("r1", "reject", actor=ANN)
    await ledger.freezes.freeze(reason="a leak")
    assert await outcome_of(session, "r1") == "rejected"


async def test_a_yes_is_refused_with_who_when_and_why_and_a_reject_counts(
    ledger: Ledger, open_ledger: OpenLedger
) -> None:
    session = await opened(ledger)
    asking = await ask_and_wait(session, "r1")
    freeze = await (await open_ledger()).freezes.freeze("shop", reason="a leak", actor=ANN)
    error = await raised(session.reply("r1", "once", actor="bob"))
    assert isinstance(error, FrozenError)
    assert (error.data["by"], error.data["at_ms"], error.data["reason"]) == (ANN, freeze.at_ms, "a leak")
    assert (error.request_id, error.session, error.agent) == ("r1", "ses_1", "stop")
    await session.reply("r1", "reject", actor="bob")
    assert isinstance(await raised(asking), RejectedError)


async def test_grants_are_refused_and_revokes_count(ledger: Ledger, open_ledger: OpenLedger) -> None:
    session = await opened(ledger)
    granted = await session.grant("bash", "git *")
    shared = await ledger.grant_in_project("shop", "bash", "make")
    await (await open_ledger()).freezes.freeze(reason="a leak")
    assert isinstance(await raised(session.grant("bash", "rm *")), FrozenError)
    assert isinstance(await raised(ledger.grant_in_project("shop", "bash", "rm *")), FrozenError)
    await session.revoke(granted.grant.grant_id)
    await ledger.revoke(shared.grant.grant_id)
    assert await session.approved() == []


async def test_a_project_is_frozen_alone(ledger: Ledger) -> None:
    await ledger.freezes.freeze("shop", reason="a release")
    assert await read(await opened(ledger, "ses_shop"), "r") is None
    assert await read(await opened(ledger, "ses_bank", "bank"), "r") == "allowed"
    assert await read(await opened(ledger, "ses_none", None), "r") == "allowed"


async def test_who_waits_is_told_of_its_allow_when_the_freeze_ends(ledger: Ledger, open_ledger: OpenLedger) -> None:
    other = await open_ledger()
    await other.freezes.freeze(reason="a leak")
    session = await opened(ledger)
    asking = await ask_and_wait(session, "r1", "a.txt", permission="read")
    await other.freezes.unfreeze(reason="found", actor=ANN)
    async with asyncio.timeout(60):
        result = await asking
    assert (result.outcome, result.by.name) == ("allowed", "ledger")
    assert result.settled is not None
    assert result.settled.cause is not None
    assert result.settled.cause.kind == "unfrozen"


async def test_what_waits_for_a_person_goes_on_waiting_for_that_person(ledger: Ledger) -> None:
    session = await opened(ledger)
    await ledger.freezes.freeze(reason="a leak")
    await pend(session, "r1")
    assert await read(session, "r2") is None
    await ledger.freezes.unfreeze()
    assert (await outcome_of(session, "r1"), await outcome_of(session, "r2")) == (None, "allowed")
    assert (await session.reply("r1", "once", actor=ANN)).outcome == "allowed"


async def test_what_the_rules_deny_by_now_is_denied_when_the_freeze_ends(ledger: Ledger) -> None:
    session = await opened(ledger)
    await ledger.freezes.freeze(reason="a leak")
    asking = await ask_and_wait(session, "r1", "a.txt", permission="read")
    await ledger.session("ses_1", rules=[{"permission": "read", "pattern": "*", "action": "deny"}])
    await ledger.freezes.unfreeze()
    assert isinstance(await raised(asking), DeniedError)


async def test_a_held_request_goes_on_although_whoever_unfroze_died_before_it_told_anybody(
    ledger: Ledger, open_ledger: OpenLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await opened(ledger)
    other = await open_ledger()
    await other.freezes.freeze(reason="a leak")
    waiting = await ask_and_wait(session, "r1", "a.txt", permission="read")
    assert await read(session, "r2") is None

    async def dies(_: object) -> None:
        return

    monkeypatch.setattr(type(other.waiting), "resume", lambda _, project: dies(project))
    await other.freezes.unfreeze()
    async with asyncio.timeout(60):
        assert (await waiting).outcome == "allowed"
    # All that was held goes with it; one that nobody waits for goes when it is asked again.
    assert await read(session, "r2") == "allowed"


async def test_a_session_can_have_its_asks_denied(ledger: Ledger) -> None:
    session = await opened(ledger, when_frozen="deny")
    await ledger.freezes.freeze(reason="a leak", actor=ANN)
    error = await raised(session.ask("read", ["a.txt"]))
    assert isinstance(error, DeniedError)
    assert "a leak" in error.text


async def test_an_allow_by_a_grant_of_the_project_waits_and_goes_on(ledger: Ledger) -> None:
    session = await opened(ledger)
    await ledger.grant_in_project("shop", "bash", "make")
    await ledger.freezes.freeze("shop", reason="a leak")
    assert (await session.submit("bash", ["make"], request_id="r1")).outcome is None
    await ledger.freezes.unfreeze("shop")
    assert await outcome_of(session, "r1") == "allowed"


async def test_an_end_of_a_freeze_that_another_covers_lets_nothing_go(ledger: Ledger) -> None:
    session = await opened(ledger)
    await ledger.freezes.freeze(reason="a leak")
    await ledger.freezes.freeze("shop", reason="a release")
    assert await read(session, "r1") is None
    await ledger.freezes.unfreeze()
    assert await outcome_of(session, "r1") is None
    await ledger.freezes.unfreeze("shop")
    assert await outcome_of(session, "r1") == "allowed"


async def test_freezing_again_repairs_what_the_first_try_did_not_reach(
    ledger: Ledger, open_ledger: OpenLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await opened(ledger)
    await read(session, "r0")
    other = await open_ledger()

    async def unreachable(*_: object) -> list[Position]:
        raise StoreError("the server cannot be reached")

    with monkeypatch.context() as patched:
        patched.setattr(other.store, "set_flags", unreachable)
        assert isinstance(await raised(other.freezes.freeze(reason="a leak")), InDoubtError)
    assert await other.freezes.behind() != []
    freeze = await other.freezes.freeze(reason="again")
    assert freeze.reason == "a leak"
    assert await other.freezes.behind() == []
    assert await read(session, "r1") is None
    written = [one.event async for one in read_events(ledger.store, FREEZES)]
    assert len(written) == 1


async def test_a_flag_that_survived_its_lost_event_stops_and_is_recorded_again(
    ledger: Ledger, open_ledger: OpenLedger, clock: TestClock
) -> None:
    session = await opened(ledger)
    await read(session, "r0")
    lost = await (await open_ledger()).freezes.freeze("bank", reason="to have a stream")
    flag = FreezeFlag(Position(lost.at_ms, 7), {"p:shop": b'{"by":"ann","at_ms":1,"project":"shop"}'})
    await ledger.store.set_flags(flag)
    clock.advance(1)
    assert await read(session, "r1") is None
    other = await open_ledger()
    assert [one.project for one in await other.freezes.in_force()] == ["bank", "shop"]
    await other.freezes.unfreeze("shop")
    assert await read(session, "r2") == "allowed"


async def test_an_unfreeze_repairs_a_lost_freeze_of_another_project_first(
    ledger: Ledger, open_ledger: OpenLedger, clock: TestClock
) -> None:
    lost = await ledger.freezes.freeze("bank", reason="to have a stream")
    flag = FreezeFlag(Position(lost.at_ms, 7), {"p:shop": b'{"by":"ann","at_ms":1,"project":"shop"}'})
    await ledger.store.set_flags(flag)
    clock.advance(1)
    await (await open_ledger()).freezes.unfreeze("bank")
    assert [one.project for one in await ledger.freezes.in_force()] == ["shop"]
    assert await read(await opened(ledger), "r1") is None


async def test_the_log_says_who_froze_what_and_why(ledger: Ledger) -> None:
    await ledger.freezes.freeze("shop", reason="a leak", actor=ANN)
    (recorded,) = [one async for one in read_events(ledger.store, FREEZES)]
    assert isinstance(recorded.event, Frozen)
    assert (recorded.actor.name, recorded.event.project) == (ANN, "shop")
    assert recorded.event.detail is not None
    assert recorded.event.detail.reason == "a leak"


async def test_deadlines_go_on_during_a_freeze(ledger: Ledger, clock: TestClock) -> None:
    session = await opened(ledger)
    await pend(session, "r1")
    await ledger.freezes.freeze(reason="a leak")
    clock.advance(8 * 86_400_000)
    await session.stream.submit("settle")
    assert (await session.state()).settled["r1"].outcome == "expired"


async def test_a_commands_refusal_does_not_fail_the_others_of_its_append(
    ledger: Ledger, open_ledger: OpenLedger
) -> None:
    session = await opened(ledger)
    for number in range(4):
        await pend(session, f"r{number}", f"git push {number}")
    await (await open_ledger()).freezes.freeze(reason="a leak")
    replies = [
        session.reply(f"r{number}", "once" if number % 2 else "reject", actor=ANN, message=None) for number in range(4)
    ]
    told = await asyncio.gather(*replies, return_exceptions=True)
    assert not any(isinstance(one, FrozenError) for one in told[0:1])
    assert all(one.event.outcome != "allowed" for one in await _replied(session))


async def _replied(session: SessionHandle) -> list[Any]:
    return [one async for one in session.events(follow_on=False) if one.type == "replied"]


async def test_a_freeze_is_known_to_who_follows_it_within_a_moment(ledger: Ledger, open_ledger: OpenLedger) -> None:
    freezes = ledger.streams.freezes
    await freezes.follow()
    await (await open_ledger()).freezes.freeze("shop", reason="a leak")
    await wait_until_async(lambda: freezes.over("shop") is not None, "the freeze to be known")


async def test_a_call_that_was_allowed_before_is_not_claimed_during_a_freeze(
    ledger: Ledger, open_ledger: OpenLedger
) -> None:
    session = await opened(ledger)
    assert await read(session, "r1") == "allowed"
    other = await open_ledger()
    await other.freezes.freeze(reason="a leak", actor=ANN)
    error = await raised(session.claim("r1", runner="worker"))
    assert isinstance(error, FrozenError)
    assert (error.data["by"], error.request_id, error.agent) == (ANN, "r1", "stop")
    await other.freezes.unfreeze()
    claim = await session.claim("r1", runner="worker")
    assert claim.request_id == "r1"


async def test_who_claimed_before_a_freeze_is_told_so_again_and_finishes(
    ledger: Ledger, open_ledger: OpenLedger
) -> None:
    session = await opened(ledger)
    await read(session, "r1")
    claim = await session.claim("r1", runner="worker")
    await (await open_ledger()).freezes.freeze(reason="a leak")
    assert (await session.claim("r1", runner="worker")).claim_id == claim.claim_id
    await session.finish("r1", claim.claim_id, ok=True)


async def test_an_ask_with_a_claim_waits_in_a_freeze_and_claims_after_it(
    ledger: Ledger, open_ledger: OpenLedger
) -> None:
    session = await opened(ledger)
    other = await open_ledger()
    await other.freezes.freeze(reason="a leak")
    asking = await ask_and_wait(session, "r1", "a.txt", permission="read", claim="worker")
    await other.freezes.unfreeze()
    async with asyncio.timeout(60):
        assert (await asking).outcome == "allowed"
    assert await events_of(session) == ["session_opened", "asked", "replied", "claimed"]
