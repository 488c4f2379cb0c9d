"""Effects of one reply on the other pending requests."""

from __future__ import annotations

from typing import Literal

import pytest

from ledger import Ledger
from tests.api.actors import ANN, OpenLedger, all_done, ask_and_wait, outcome_of, pend, pending_ids

GIT = ["git push *"]


async def test_a_reject_ends_the_sessions_other_requests_in_order_and_without_the_feedback(ledger: Ledger) -> None:
    session = await ledger.session("ses_1")
    asks = [await ask_and_wait(session, f"call_{number}", f"git push {number}") for number in range(4)]
    await session.reply("call_2", "reject", actor=ANN, message="use a branch")
    assert await all_done(asks) == ["REJECTED", "REJECTED", "CORRECTED", "REJECTED"]
    replied = [event.as_json()["event"] async for event in session.events(5, follow_on=False)]
    assert [(one["request_id"], one["outcome"], one.get("cause")) for one in replied] == [
        ("call_2", "corrected", None),
        ("call_0", "rejected", {"kind": "cascade", "request_id": "call_2"}),
        ("call_1", "rejected", {"kind": "cascade", "request_id": "call_2"}),
        ("call_3", "rejected", {"kind": "cascade", "request_id": "call_2"}),
    ]


async def test_a_cascaded_request_stops_its_agent_and_says_who_rejected(ledger: Ledger) -> None:
    session = await ledger.session("ses_1")
    await pend(session, "call_1")
    await pend(session, "call_2", "git pull")
    await session.reply("call_1", "reject", actor=ANN, message="use a branch")
    other = await session.result("call_2")
    assert (other.outcome, other.agent, other.by.name, other.message) == (
        "rejected",
        "stop",
        "ann",
        "The user rejected permission to use this specific tool call.",
    )


@pytest.mark.parametrize(
    ("setting", "left"),
    [("session", []), ("siblings", ["other", "toolless"]), ("none", ["sibling", "other", "toolless"])],
)
async def test_how_far_a_reject_reaches_is_a_setting(
    ledger: Ledger, setting: Literal["session", "siblings", "none"], left: list[str]
) -> None:
    session = await ledger.session("ses_1", cascade_reject=setting)
    for request_id, message_id in [("call_1", "msg_1"), ("sibling", "msg_1"), ("other", "msg_2")]:
        await pend(session, request_id, request_id, tool={"message_id": message_id, "call_id": request_id})
    await pend(session, "toolless", "ls")
    await session.reply("call_1", "reject")
    assert await pending_ids(session) == left


async def test_a_reject_reaches_no_other_session(ledger: Ledger) -> None:
    one, two = await ledger.session("ses_1", project="shop"), await ledger.session("ses_2", project="shop")
    await pend(one, "call_1")
    await pend(two, "call_2")
    await one.reply("call_1", "reject")
    assert await pending_ids(two) == ["call_2"]


async def test_always_releases_what_is_now_allowed_by_rules_and_grants_together(ledger: Ledger) -> None:
    rules = [{"permission": "bash", "pattern": "echo *", "action": "allow"}]
    session = await ledger.session("ses_1", rules=rules)
    await pend(session, "call_1", "git push", always=GIT)
    covered = await ask_and_wait(session, "call_2", "git push --tags")
    with_rule = await ask_and_wait(session, "call_3", "echo hello", "git push")
    await pend(session, "call_4", "git push", "ls")
    await pend(session, "call_5", "git push", permission="edit")
    await session.reply("call_1", "always", actor=ANN)
    assert await all_done([covered, with_rule]) == ["allowed", "allowed"]
    released = await session.result("call_2")
    assert (released.reply, released.by.name) == ("always", "ann")
    assert await pending_ids(session) == ["call_4", "call_5"]


async def test_in_compat_v1_grants_alone_release(ledger: Ledger) -> None:
    rules = [{"permission": "bash", "pattern": "echo *", "action": "allow"}]
    session = await ledger.session("ses_1", rules=rules, options={"compat": "v1"})
    await pend(session, "call_1", "git push", always=GIT)
    await pend(session, "call_2", "git push --tags")
    await pend(session, "call_3", "echo hello", "git push")
    await session.reply("call_1", "always")
    assert (await outcome_of(session, "call_2"), await pending_ids(session)) == ("allowed", ["call_3"])


async def test_once_releases_nothing(ledger: Ledger) -> None:
    session = await ledger.session("ses_1")
    await pend(session, "call_1", "git push", always=GIT)
    await pend(session, "call_2", "git push", always=GIT)
    await session.reply("call_1", "once")
    assert await pending_ids(session) == ["call_2"]


async def test_a_session_reply_releases_too(ledger: Ledger) -> None:
    session = await ledger.session("ses_1", project="shop")
    await pend(session, "call_1", "git push", always=GIT)
    await pend(session, "call_2", "git push --tags")
    await session.reply("call_1", "session")
    assert (await session.result("call_2")).as_json()["reply"] == "session"
    assert [one.as_json()["scope"] for one in await session.approved()] == ["session"]


@pytest.mark.parametrize(("setting", "left"), [("session", ["call_2"]), ("project", [])])
async def test_whether_always_releases_in_other_sessions_of_the_project_is_a_setting(
    ledger: Ledger, open_ledger: OpenLedger, setting: Literal["session", "project"], left: list[str]
) -> None:
    one = await ledger.session("ses_1", project="shop", cascade_always=setting)
    two = await ledger.session("ses_2", project="shop", cascade_always=setting)
    elsewhere = await ledger.session("ses_3", project="bakery", cascade_always=setting)
    await pend(one, "call_1", "git push", always=GIT)
    await pend(two, "call_2", "git push")
    await pend(elsewhere, "call_3", "git push")
    await (await open_ledger()).reply("call_1", "always")
    assert (await pending_ids(two), await pending_ids(elsewhere)) == (left, ["call_3"])
    assert (await two.ask("bash", ["git push"], request_id="fresh")).outcome == "allowed"


async def test_a_grant_releases_no_request_that_a_decider_wants_asked(open_ledger: OpenLedger) -> None:
    class Careful:
        name = "careful"

        def decide(self, *_: object) -> str:
            return "ask"

    session = await (await open_ledger(plugins=[Careful()])).session("ses_1")
    await pend(session, "call_1", "git push", always=GIT)
    await pend(session, "call_2", "git push")
    await session.reply("call_1", "always")
    assert await pending_ids(session) == ["call_2"]
