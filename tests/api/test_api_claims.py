"""Claims in programs: an allowed call runs once, and only while what allowed it holds."""

from __future__ import annotations

import asyncio

import pytest

from ledger import (
    AlreadyClaimedError,
    ExpiredError,
    Ledger,
    Permit,
    RejectedError,
    ReopenedError,
    Runner,
    StillPendingError,
    SyncLedger,
    claim_id_of,
)
from ledger.core.limits import MESSAGE_BYTES
from ledger.testing import TestClock
from tests.api.actors import (
    ANN,
    RULES,
    OpenLedger,
    ask_and_wait,
    before_the_next_append,
    events_of,
    minutes_later,
    pend,
    raised,
    text_of_input_error,
)
from tests.support.waiting import wait_until_async

HOOK = Runner("claude", "toolu_1")
OTHER = Runner("worker-2", "toolu_1")


async def test_what_a_rule_allows_is_asked_and_claimed_in_one_append(ledger: Ledger) -> None:
    session = await ledger.session("ses_1", rules=RULES)
    result = await session.ask("read", ["a.py"], request_id="call_1", claim=HOOK)
    assert result.allowed
    assert result.as_json()["claim"]["claim_id"] == claim_id_of(HOOK)
    entries = [event async for event in session.events(follow_on=False)]
    assert [event.type for event in entries] == ["session_opened", "asked", "claimed"]
    assert entries[1].ms == entries[2].ms


async def test_an_ask_waits_and_claims_when_a_person_has_allowed_it(ledger: Ledger) -> None:
    session = await ledger.session("ses_1")
    asking = await ask_and_wait(session, "call_1", claim=HOOK)
    await session.reply("call_1", "once", actor=ANN)
    assert (await asking).allowed
    assert await events_of(session) == ["session_opened", "asked", "replied", "claimed"]


async def test_a_rejected_ask_has_no_claim(ledger: Ledger) -> None:
    session = await ledger.session("ses_1")
    asking = await ask_and_wait(session, "call_1", claim=HOOK)
    await session.reply("call_1", "reject", actor=ANN)
    with pytest.raises(RejectedError):
        await asking
    assert "claimed" not in await events_of(session)


async def test_the_same_runner_claims_again_and_another_does_not(ledger: Ledger, open_ledger: OpenLedger) -> None:
    session = await ledger.session("ses_1", rules=RULES)
    await session.ask("read", ["a.py"], request_id="call_1", claim=HOOK)
    elsewhere = await (await open_ledger()).session("ses_1")
    assert (await elsewhere.ask("read", ["a.py"], request_id="call_1", claim=HOOK)).allowed
    assert (await elsewhere.claim("call_1", runner=HOOK)).claim_id == claim_id_of(HOOK)
    error = await raised(elsewhere.ask("read", ["a.py"], request_id="call_1", claim=OTHER))
    assert isinstance(error, AlreadyClaimedError)
    assert (error.data["runner"], error.agent) == ("claude", "stop")
    assert await events_of(session) == ["session_opened", "asked", "claimed"]


async def test_who_asks_without_a_claim_does_not_run_what_another_has_claimed(
    ledger: Ledger, open_ledger: OpenLedger
) -> None:
    session = await ledger.session("ses_1")
    asking = await ask_and_wait(session, "call_1")
    elsewhere = await (await open_ledger()).attach("ses_1")
    await session.reply("call_1", "once", actor=ANN)
    assert (await asking).allowed, "nobody had claimed it"
    await elsewhere.claim("call_1", runner=HOOK)
    assert (await raised(session.ask("bash", ["git push"], request_id="call_1"))).code == "ALREADY_CLAIMED"
    assert (await session.result("call_1")).as_json()["claim"]["runner"] == "claude", "who reads sees who runs it"


async def test_many_runners_of_one_call_have_one_winner(open_ledger: OpenLedger) -> None:
    ledgers = [await open_ledger() for _ in range(4)]
    session = await ledgers[0].session("ses_1")
    await pend(session, "call_1", "git push")
    await session.reply("call_1", "once", actor=ANN)

    async def try_to(number: int) -> bool:
        mine = await ledgers[number % 4].attach("ses_1")
        try:
            await mine.claim("call_1", runner=Runner(f"worker-{number}", "call_1"))
        except AlreadyClaimedError:
            return False
        return True

    assert sum(await asyncio.gather(*map(try_to, range(32)))) == 1
    assert (await events_of(session)).count("claimed") == 1


async def test_every_opened_ledger_is_a_runner_of_its_own(open_ledger: OpenLedger) -> None:
    here, there = await open_ledger(), await open_ledger()
    session = await here.session("ses_1", rules=RULES)
    await session.ask("read", ["a.py"], request_id="call_1", claim=True)
    assert (await raised((await there.attach("ses_1")).claim("call_1"))).code == "ALREADY_CLAIMED"
    assert (await session.claim("call_1")).request_id == "call_1"


async def test_a_claim_has_the_input_that_may_run(ledger: Ledger) -> None:
    session = await ledger.session("ses_1")
    asked, changed = {"command": "git push"}, {"command": "git push --dry-run"}
    for request_id, edited in (("call_1", None), ("call_2", changed)):
        await session.submit_tool("bash", asked, request_id=request_id)
        await session.reply(request_id, "once", actor=ANN, updated_input=edited)
        claim = await session.claim(request_id, runner=Runner("claude", request_id))
        assert claim.input == (edited or asked)


async def test_what_is_pending_is_not_claimed(ledger: Ledger) -> None:
    session = await ledger.session("ses_1")
    await pend(session, "call_1")
    assert isinstance(await raised(session.claim("call_1")), StillPendingError)
    await session.reply("call_1", "reject", actor=ANN)
    assert isinstance(await raised(session.claim("call_1")), RejectedError)
    assert (await raised(session.claim("call_9"))).code == "UNKNOWN_REQUEST"


async def test_a_claim_past_the_deadline_writes_that_it_expired_and_is_refused_so(
    ledger: Ledger, open_ledger: OpenLedger, clock: TestClock
) -> None:
    """No worker runs here, and nobody waits: the claim itself finds that the time is over."""
    session = await ledger.session("ses_1")
    await pend(session, "call_1")
    elsewhere = await (await open_ledger()).attach("ses_1")
    clock.advance(8 * 86_400_000)
    assert isinstance(await raised(elsewhere.claim("call_1")), ExpiredError)
    assert (await events_of(session))[-1] == "expired"
    assert isinstance(await raised(session.claim("call_1")), ExpiredError)
    assert (await events_of(session)).count("expired") == 1


async def test_a_runner_must_have_a_name(ledger: Ledger) -> None:
    session = await ledger.session("ses_1", rules=RULES)
    for runner in ("", "a\nb", "x" * 300, Runner("claude", "")):
        assert "runner" in await text_of_input_error(session.ask("read", ["a.py"], claim=runner))


async def test_a_revoke_between_the_answer_and_the_claim_reopens_the_request(ledger: Ledger) -> None:
    session = await ledger.session("ses_1")
    await session.grant("bash", "git *", grant_id="grn_1")
    await session.submit("bash", ["git push"], request_id="call_1")
    await session.revoke("grn_1")
    error = await raised(session.claim("call_1", runner=HOOK))
    assert isinstance(error, ReopenedError)
    assert (error.data["round"], error.data["cause"], error.agent) == (2, "grants", "continue")
    [waiting] = await session.pending()
    assert waiting.as_json()["round"] == 2
    assert (await raised(session.claim("call_1", runner=HOOK))).code == "REOPENED", "until it is answered"
    await session.reply("call_1", "once", actor=ANN, digest=waiting.as_json()["digest"])
    assert (await session.claim("call_1", runner=HOOK)).round == 2


async def test_an_ask_whose_allow_is_reopened_at_the_claim_waits_for_the_next_answer(
    ledger: Ledger, clock: TestClock
) -> None:
    session = await ledger.session("ses_1", approval_lifetime=60)
    await pend(session, "call_1", "git push")
    await session.reply("call_1", "once", actor=ANN)
    minutes_later(clock, 5)
    asking = await ask_and_wait(session, "call_1", "git push", claim=HOOK)
    assert (await session.result("call_1")).message == "pending again: it was allowed more than 60 seconds ago"
    await session.reply("call_1", "once", actor=ANN, round=2)
    assert (await asking).allowed
    assert (await events_of(session))[-3:] == ["reopened", "replied", "claimed"]


async def test_the_rules_may_change_between_the_decision_and_the_append_of_a_claim(
    ledger: Ledger, open_ledger: OpenLedger
) -> None:
    session = await ledger.session("ses_1", rules=RULES)
    await session.submit("read", ["a.py"], request_id="call_1")
    elsewhere = await open_ledger()
    deny = [{"permission": "read", "pattern": "*", "action": "deny"}]
    before_the_next_append(ledger, lambda: elsewhere.session("ses_1", rules=deny))
    assert (await raised(session.claim("call_1", runner=HOOK))).code == "DENIED"
    assert (await events_of(session))[-2:] == ["policy_changed", "reopened"]


class TestAGrantOfTheProject:
    async def test_its_call_is_claimed_after_a_read_of_the_project(self, ledger: Ledger) -> None:
        session = await ledger.session("ses_1", project="shop")
        await ledger.grant_in_project("shop", "bash", "git *")
        assert (await session.ask("bash", ["git push"], request_id="call_1", claim=HOOK)).allowed
        entries = [event async for event in session.events(follow_on=False)]
        assert [event.type for event in entries] == ["session_opened", "asked", "claimed"]
        assert entries[2].as_json()["event"]["project_version"] == 1

    async def test_what_a_rule_allows_is_claimed_at_once_in_a_project_too(self, ledger: Ledger) -> None:
        session = await ledger.session("ses_1", rules=RULES, project="shop")
        assert (await session.ask("read", ["a.py"], claim=HOOK)).allowed
        assert await events_of(session) == ["session_opened", "asked", "claimed"]

    async def test_a_revoke_before_the_claim_is_seen(self, ledger: Ledger, open_ledger: OpenLedger) -> None:
        session = await ledger.session("ses_1", project="shop")
        made = await ledger.grant_in_project("shop", "bash", "git *")
        await session.submit("bash", ["git push"], request_id="call_1")
        await (await open_ledger()).revoke(made.grant.grant_id)
        assert (await raised(session.claim("call_1", runner=HOOK))).code == "REOPENED"

    async def test_a_revoke_while_it_is_claimed_lets_nobody_run_it(
        self, ledger: Ledger, open_ledger: OpenLedger
    ) -> None:
        session = await ledger.session("ses_1", project="shop")
        made = await ledger.grant_in_project("shop", "bash", "git *")
        await session.submit("bash", ["git push"], request_id="call_1")
        elsewhere = await open_ledger()
        before_the_next_append(ledger, lambda: elsewhere.revoke(made.grant.grant_id))
        for _ in range(2):
            error = await raised(session.claim("call_1", runner=HOOK))
            assert (error.code, "it may have run" in error.text) == ("ALREADY_CLAIMED", True)
        assert await events_of(session) == ["session_opened", "asked", "claimed"]

    async def test_another_change_of_the_project_while_it_is_claimed_does_no_harm(
        self, ledger: Ledger, open_ledger: OpenLedger
    ) -> None:
        session = await ledger.session("ses_1", project="shop")
        await ledger.grant_in_project("shop", "bash", "git *")
        await session.submit("bash", ["git push"], request_id="call_1")
        elsewhere = await open_ledger()
        before_the_next_append(ledger, lambda: elsewhere.grant_in_project("shop", "edit", "*"))
        assert (await session.claim("call_1", runner=HOOK)).request_id == "call_1"


class TestTheEnd:
    async def test_a_run_is_recorded_once_with_its_claim(self, ledger: Ledger) -> None:
        session = await ledger.session("ses_1", rules=RULES)
        await session.ask("read", ["a.py"], request_id="call_1", claim=HOOK)
        for _ in range(2):
            await session.finish("call_1", claim_id_of(HOOK), ok=False, output="no such file")
        assert await events_of(session) == ["session_opened", "asked", "claimed", "tool_finished"]
        assert (await raised(session.claim("call_1", runner=HOOK))).code == "ALREADY_CLAIMED"

    async def test_a_claim_ends_unknown_after_its_timeout_for_every_process(
        self, ledger: Ledger, open_ledger: OpenLedger, clock: TestClock
    ) -> None:
        session = await ledger.session("ses_1", rules=RULES, claim_timeout=600)
        await session.ask("read", ["a.py"], request_id="call_1", claim=HOOK)
        assert await due_sessions(ledger) == ["ses_1"]
        minutes_later(clock, 11)
        elsewhere = await (await open_ledger()).attach("ses_1")
        assert (await raised(elsewhere.claim("call_1", runner=HOOK))).code == "ALREADY_CLAIMED"
        assert (await events_of(session))[-1] == "end_unknown"
        assert await due_sessions(ledger) == []

    async def test_a_session_with_open_claims_alone_is_not_waiting_for_a_person(self, ledger: Ledger) -> None:
        session = await ledger.session("ses_1", rules=RULES)
        await session.ask("read", ["a.py"], request_id="call_1", claim=HOOK)
        assert await ledger.waiting.states() == []

    async def test_a_person_releases_a_claim(self, ledger: Ledger) -> None:
        session = await ledger.session("ses_1", rules=RULES)
        await session.ask("read", ["a.py"], request_id="call_1", claim=HOOK)
        await session.release_claim("call_1", reason="its machine is gone", actor=ANN)
        assert (await session.claim("call_1", runner=OTHER)).runner == "worker-2"

    async def test_an_agent_that_ends_ends_its_claims(self, ledger: Ledger) -> None:
        session = await ledger.session("ses_1", rules=RULES)
        await session.ask("read", ["a.py"], request_id="call_1", claim=HOOK)
        assert await session.end_claims(runner="worker-2") == []
        assert await session.end_claims() == ["call_1"]
        assert await session.end_claims() == []

    async def test_closing_ends_what_is_claimed(self, ledger: Ledger) -> None:
        session = await ledger.session("ses_1", rules=RULES)
        await session.ask("read", ["a.py"], request_id="call_1", claim=HOOK)
        await session.close()
        assert (await events_of(session))[-2:] == ["end_unknown", "session_closed"]


class TestPermit:
    async def test_a_block_asks_claims_and_records_the_end(self, ledger: Ledger) -> None:
        session = await ledger.session("ses_1", rules=RULES)
        async with session.permit("read", ["a.py"], request_id="call_1") as permit:
            assert isinstance(permit, Permit)
            permit.output = "42 lines"
        entries = [event async for event in session.events(follow_on=False)]
        assert [event.type for event in entries] == ["session_opened", "asked", "claimed", "tool_finished"]
        ended = entries[3].as_json()["event"]
        assert (ended["claim_id"], ended["detail"]["output"]) == (permit.claim.claim_id, "42 lines")

    async def test_a_block_that_fails_records_the_error(self, ledger: Ledger) -> None:
        session = await ledger.session("ses_1", rules=RULES)
        with pytest.raises(ZeroDivisionError):
            async with session.permit("read", ["a.py"]):
                raise ZeroDivisionError("x" * MESSAGE_BYTES)
        ended = [event async for event in session.events(follow_on=False)][3].as_json()["event"]
        assert ended["ok"] is False
        assert ended["detail"]["output"].startswith("ZeroDivisionError: x")

    async def test_a_cancelled_block_records_that_it_failed(self, ledger: Ledger) -> None:
        session = await ledger.session("ses_1", rules=RULES)
        inside = asyncio.Event()

        async def run() -> None:
            async with session.permit("read", ["a.py"]):
                inside.set()
                await asyncio.Event().wait()

        running = asyncio.create_task(run())
        await inside.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert (await events_of(session))[-1] == "tool_finished"

    async def test_a_refused_call_never_enters_the_block(self, ledger: Ledger) -> None:
        session = await ledger.session("ses_1", rules=RULES)
        entered = False
        with pytest.raises(Exception, match="prevents you from using"):
            async with session.permit("bash", ["rm -rf /"]):
                entered = True
        assert not entered

    async def test_a_tool_call_has_the_input_that_a_person_made_of_it(self, ledger: Ledger) -> None:
        session = await ledger.session("ses_1")
        changed = {"command": "git push --dry-run"}
        seen: list[object] = []

        async def run() -> None:
            async with session.permit_tool("bash", {"command": "git push"}, request_id="call_1") as permit:
                seen.append(permit.input)

        running = asyncio.create_task(run())

        async def is_pending() -> bool:
            return bool(await session.pending())

        await wait_until_async(is_pending, "the request to be pending")
        await session.reply("call_1", "once", actor=ANN, updated_input=changed)
        await running
        assert seen == [changed]


def test_the_blocking_interface_has_the_same_block() -> None:
    with SyncLedger.connect("memory://") as ledger:
        session = ledger.session("ses_1", rules=RULES)
        with session.permit("read", ["a.py"], request_id="call_1") as permit:
            assert permit.claim.request_id == "call_1"
        with pytest.raises(AlreadyClaimedError):
            session.claim("call_1")


async def due_sessions(ledger: Ledger) -> list[str]:
    return [session_id for session_id, _ in await ledger.store.due(None, 10)]
