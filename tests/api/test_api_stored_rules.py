"""Rules are stored once, before the first session that names them; without them a session allows nothing."""

from __future__ import annotations

import asyncio
from typing import Final

import pytest

from ledger import InputError, Ledger
from ledger.core.errors import RulesUnreadableError
from ledger.core.events import Actor
from ledger.core.ids import new_salt
from ledger.core.requests import make_question
from ledger.log.archive.archive import all_streams
from ledger.log.judgements import judge_again
from ledger.log.plans import SETTLE
from ledger.log.rulesets import read_ruleset
from ledger.log.tail import read_events
from ledger.policy import Layer, PolicySource, Rule, Verdict, compile_policy, digest
from ledger.policy.stored_rules import StoreRules
from ledger.session.commands import Ask, Open
from ledger.session.judged_again import NOT_DECIDABLE, SAME
from ledger.stores.port import StreamKey
from ledger.testing import TestClock
from tests.api.actors import OpenLedger
from workers.upkeep.stream_checks import StreamChecker, check_stream, read_anchors

AGENT: Final = Actor("agent", "claude")
ALLOW: Final = [{"permission": "bash", "pattern": "ls *", "action": "allow"}]
SOURCE: Final = PolicySource(layers=(Layer("session", rules=(Rule("bash", "ls *", Verdict.ALLOW),)),))
RULES: Final = StreamKey("policy", digest(SOURCE))
SES_1: Final = StreamKey("session", "ses_1")

WEEK_MS: Final = 7 * 86_400_000 + 1


async def named_without_rules(ledger: Ledger, session_id: str = "ses_1") -> None:
    """Open a session as a process would whose rules never arrived."""
    stream = ledger.streams.session(session_id)
    await stream.submit(Open(actor=AGENT, policy=SOURCE, policy_digest=RULES.id))


async def test_a_session_names_its_rules_and_a_stream_of_their_own_holds_them(ledger: Ledger) -> None:
    for number in range(3):
        session = await ledger.session(f"ses_{number}", policy=SOURCE)
        assert await session.rules() == SOURCE
        assert (await session.submit("bash", ["ls -l"])).outcome == "allowed"
    assert [key async for key in all_streams(ledger.store) if key.kind == "policy"] == [RULES]
    (stored,) = [one async for one in read_events(ledger.store, RULES)]
    assert stored.event.detail.policy == SOURCE  # type: ignore[union-attr]
    (opened, *_) = [one async for one in read_events(ledger.store, SES_1)]
    assert opened.event.detail is None  # type: ignore[union-attr]
    assert (await check_stream(ledger.store, RULES)).ok


async def test_rules_of_two_openers_at_once_are_stored_once(open_ledger: OpenLedger) -> None:
    one, other = await open_ledger(), await open_ledger()
    opening = [ledger.session(f"ses_{n}_{id(ledger)}", policy=SOURCE) for n in range(4) for ledger in (one, other)]
    for session in await asyncio.gather(*opening):
        assert (await session.submit("bash", ["ls -l"])).outcome == "allowed"
    assert len([event async for event in read_events(one.store, RULES)]) == 1
    assert (await check_stream(one.store, RULES)).ok


async def test_rules_whose_opener_died_before_its_session_are_whole_and_serve_the_next(open_ledger: OpenLedger) -> None:
    dead = await open_ledger()
    await dead.streams.rulesets.keep(SOURCE, RULES.id, AGENT)
    ledger = await open_ledger()
    assert [key async for key in all_streams(ledger.store)] == [RULES]
    session = await ledger.session("ses_1", policy=SOURCE)
    assert (await session.submit("bash", ["ls -l"])).outcome == "allowed"
    assert len([event async for event in read_events(ledger.store, RULES)]) == 1


async def test_without_its_rules_a_session_allows_nothing_and_says_why(open_ledger: OpenLedger) -> None:
    await named_without_rules(await open_ledger())
    ledger = await open_ledger()
    session = await ledger.attach("ses_1")
    with pytest.raises(RulesUnreadableError, match=f"`policy:{RULES.id}`: there is no such stream") as refused:
        await session.submit("bash", ["ls -l"], request_id="r1")
    assert (refused.value.code, refused.value.data["session"]) == ("RULES_UNREADABLE", "ses_1")
    with pytest.raises(RulesUnreadableError):
        await ledger.session("ses_2", parent="ses_1")
    assert (await session.state()).version == 1, "nothing was written"


async def test_a_request_of_a_session_that_lost_its_rules_is_not_allowed_and_still_ends(
    open_ledger: OpenLedger, clock: TestClock
) -> None:
    ledger = await open_ledger()
    asking = await ledger.session("ses_1", policy=SOURCE)
    await asking.submit("bash", ["rm x"], request_id="r1")
    await asking.submit("bash", ["rm y"], request_id="r2")
    # Other rules, which nobody stored, judge from here on.
    other = PolicySource(layers=(Layer("session", rules=(Rule("bash", "rm *", Verdict.ASK),)),))
    await ledger.streams.session("ses_1").submit(Open(actor=AGENT, policy=other, policy_digest=digest(other)))
    session = await (await open_ledger()).attach("ses_1")
    with pytest.raises(RulesUnreadableError):
        await session.reply("r1", "once", actor="ann")
    await session.cancel("r1")
    assert (await session.result("r1")).outcome == "cancelled"
    clock.advance(WEEK_MS)
    await session.stream.submit(SETTLE)
    assert (await session.result("r2")).outcome == "expired"
    await session.close()
    assert (await session.state()).closed_ms is not None


async def test_rules_that_are_others_than_their_digest_says_judge_nothing(open_ledger: OpenLedger) -> None:
    ledger = await open_ledger()
    lax = PolicySource(layers=(Layer("session", rules=(Rule("*", "*", Verdict.ALLOW),)),))
    await ledger.streams.rules(RULES.id).submit(StoreRules(actor=AGENT, source=lax))
    await named_without_rules(ledger)
    session = await (await open_ledger()).attach("ses_1")
    with pytest.raises(RulesUnreadableError, match="other rules than those of its digest"):
        await session.submit("bash", ["rm -rf /"])
    with pytest.raises(RulesUnreadableError):
        await ledger.session("ses_3", policy=SOURCE)
    (problem,) = (await check_stream(ledger.store, RULES)).problems
    assert problem.kind == "altered"


async def test_opening_again_with_the_same_rules_brings_missing_ones_back(open_ledger: OpenLedger) -> None:
    ledger = await open_ledger()
    await named_without_rules(ledger)
    session = await ledger.attach("ses_1")
    with pytest.raises(RulesUnreadableError):
        await session.submit("bash", ["ls -l"])
    await (await open_ledger()).session("ses_1", policy=SOURCE)
    assert (await session.submit("bash", ["ls -l"])).outcome == "allowed"
    assert (await session.state()).version == 2


async def test_a_verdict_is_judged_again_by_the_stored_rules_and_not_without_them(open_ledger: OpenLedger) -> None:
    ledger = await open_ledger()
    session = await ledger.session("ses_1", policy=SOURCE)
    await session.submit("bash", ["ls -l"])
    assert [one.result async for one in judge_again(ledger.store, "ses_1")] == [SAME]
    await named_without_rules(ledger, "ses_2")
    other = PolicySource(layers=(Layer("session", rules=(Rule("*", "*", Verdict.ALLOW),)),))
    opening = Open(actor=AGENT, policy=other, policy_digest=digest(other))
    await ledger.streams.session("ses_2").submit(opening)
    asking = Ask(
        actor=AGENT,
        request_id="r1",
        salt=new_salt(),
        question=make_question("bash", ["ls -l"]),
        policy=compile_policy(other),
        policy_digest=digest(other),
    )
    await ledger.streams.session("ses_2").submit(asking)
    (one,) = [one async for one in judge_again(ledger.store, "ses_2")]
    assert (one.result, one.recorded) == (NOT_DECIDABLE, Verdict.ALLOW)


async def test_verification_of_signed_answers_names_a_session_whose_rules_are_missing(ledger: Ledger) -> None:
    await named_without_rules(ledger)
    checker = StreamChecker(ledger.store, anchors=await read_anchors(ledger.store, None), depth="chain")
    (problem,) = (await checker.check(SES_1)).problems
    assert (problem.version, problem.kind) == (1, "missing")
    assert RULES.name in problem.text
    (checked,) = [one async for one in checker.check_all([SES_1])]
    assert checked.problems == [problem]
    assert checked.rules == (RULES.id,)


async def test_rules_that_json_cannot_hold_are_refused_before_anything_is_written(ledger: Ledger) -> None:
    with pytest.raises(InputError, match="JSON"):
        await ledger.session("ses_1", policy=PolicySource(options={"mode": "default", "odd": float("nan")}))
    assert [key async for key in all_streams(ledger.store)] == []


async def test_stored_rules_are_whole_for_their_readers(ledger: Ledger) -> None:
    await ledger.session("ses_1", policy=SOURCE)
    state = await read_ruleset(ledger.store, RULES.id)
    assert (state.source, state.why_unreadable) == (SOURCE, None)
