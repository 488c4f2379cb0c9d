"""Contents of a session's event stream, and the ends of streams."""

from __future__ import annotations

import pytest

from ledger.testing import TestClock
from tests.gateway.callers import Caller, Served
from tests.gateway.events.listening import brief, listening

RULES = [{"permission": "bash", "pattern": "ls*", "action": "allow"}]
SESSION_EVENTS = "/v1/sessions/ses_1/events"


@pytest.fixture
async def opened(gateway: Served) -> Caller:
    agent = await gateway.caller("agent", "worker", brings_rules=True)
    await agent.put("/v1/sessions/ses_1", {"project": "shop", "rules": RULES})
    return agent


async def test_a_reader_is_told_what_is_pending_and_then_what_happens(opened: Caller, ann: Caller) -> None:
    await opened.ask("ses_1", request_id="r1", always=["git push *"])
    async with listening(ann, SESSION_EVENTS) as reader:
        snapshot = await reader.named("snapshot.end")
        assert [brief(told)[::2] for told in snapshot] == [("permission.asked", "r1"), ("snapshot.end", None)]
        pending = (await ann.get("/v1/pending")).json()["pending"]
        # The presence of its asker is a momentary hint, and no event.
        del pending[0]["asker_gone_at"]
        assert snapshot[0].data == {**pending[0], "is_replay": True}
        assert (snapshot[0].last_id, snapshot[1].data) == (None, {"pending": 1})

        await opened.ask("ses_1", "ls -l", request_id="r2")
        await opened.ask("ses_1", "rm x", request_id="r3")
        await ann.post("/v1/sessions/ses_1/asks/r1/reply", {"reply": "session"})
        await opened.post("/v1/sessions/ses_1/asks/r3/cancel", {"reason": "done"})
        await opened.post("/v1/sessions/ses_1/tools-finished", {"request_id": "r2", "ok": True})
        await opened.post("/v1/sessions/ses_1/close", {})
        told = await reader.named("session.closed")
    assert [brief(one)[::2] for one in told] == [
        ("permission.decided", "r2"),
        ("permission.asked", "r3"),
        ("permission.replied", "r1"),
        ("grant.created", told[3].data["grant_id"]),
        ("permission.cancelled", "r3"),
        ("tool.finished", "r2"),
        ("session.closed", None),
    ]
    replied = told[2].data
    assert (replied["by"], replied["reply"], replied["outcome"], replied["project"]) == (
        "ann",
        "session",
        "allowed",
        "shop",
    )
    assert (told[1].data["is_replay"], told[4].data["by"], told[4].data["cancel_cause"]) == (
        False,
        "worker",
        "withdrawn",
    )


async def test_a_yes_that_needs_those_of_more_people_is_told(gateway: Served, ann: Caller) -> None:
    session = await gateway.ledger.session("ses_2", rules={"permission": {"*": "ask"}}, demands=[{"approvers": 2}])
    await session.submit("bash", ["git push"], request_id="r1")
    async with listening(ann, "/v1/sessions/ses_2/events") as reader:
        await reader.named("snapshot.end")
        await session.reply("r1", "once", actor="bob")
        (*_, agreed) = await reader.named("permission.agreed")
        assert (agreed.data["request_id"], agreed.data["by"], agreed.data["outcome"]) == ("r1", "bob", None)
        assert [one["by"] for one in agreed.data["approvals"]["given"]] == ["bob"]
        assert (agreed.data["approvals"]["needed"], agreed.data["approvals"]["missing"]) == (2, 1)


async def test_a_deadline_that_passes_is_told(opened: Caller, ann: Caller, clock: TestClock) -> None:
    async with listening(ann, SESSION_EVENTS) as reader:
        await reader.named("snapshot.end")
        await ann.put("/v1/sessions/ses_1/clients/phone")
        await opened.ask("ses_1", request_id="r1")
        assert [one.name for one in await reader.named("permission.asked")] == ["permission.asked"]
        await ann.delete("/v1/sessions/ses_1/clients/phone")
        clock.advance("61s")
        await opened.ask("ses_1", "ls 1")
        (*_, moved) = await reader.named("permission.deadline_moved")
        assert (moved.data["request_id"], moved.data["tier"]) == ("r1", "unattended")
        clock.advance("8d")
        await opened.ask("ses_1", "ls 2")
        (*_, late) = await reader.named("permission.timeout")
        assert (late.data["request_id"], late.data["code"]) == ("r1", "EXPIRED")


async def test_a_client_that_comes_gives_what_waits_its_time_again_and_readers_are_told(
    opened: Caller, ann: Caller, clock: TestClock
) -> None:
    for number in (1, 2):
        await opened.ask("ses_1", request_id=f"r{number}")
    async with listening(ann, SESSION_EVENTS) as reader:
        await reader.named("snapshot.end")
        clock.advance("1d")
        await ann.put("/v1/sessions/ses_1/clients/phone")
        told = await reader.until(lambda one: one.data.get("request_id") == "r2")
    assert [brief(one)[::2] for one in told] == [
        ("client.connected", None),
        ("permission.deadline_moved", "r1"),
        ("permission.deadline_moved", "r2"),
    ]


async def test_a_session_that_is_not_ones_own_has_no_stream(opened: Caller, gateway: Served) -> None:
    stranger = await gateway.caller("auditor", "stranger", projects=("other",))
    assert (await stranger.get(SESSION_EVENTS)).json()["code"] == "UNKNOWN_SESSION"


async def test_a_revoked_token_ends_its_streams(opened: Caller, gateway: Served) -> None:
    made = await gateway.ledger.tokens.create("gone", "auditor")
    reader, other = gateway.caller_with(made.text), await gateway.caller("auditor", "stays")
    async with listening(reader, "/v1/events") as ends, listening(other, "/v1/events") as stays:
        await ends.named("stream.open")
        await gateway.ledger.tokens.revoke(made.token.token_id)
        assert [told.name for told in await ends.rest()] == ["stream.end"]
        await opened.ask("ses_1", request_id="r1")
        await stays.named("permission.asked")


@pytest.mark.slow
async def test_an_expired_token_ends_its_streams(opened: Caller, gateway: Served, clock: TestClock) -> None:
    reader = await gateway.caller("auditor", "brief", expires_in_ms=60_000)
    async with listening(reader, SESSION_EVENTS) as ends:
        await ends.named("snapshot.end")
        clock.advance("61s")
        assert [told.name for told in await ends.rest()] == ["stream.end"]


async def test_the_number_of_open_streams_is_measured(opened: Caller, gateway: Served, ann: Caller) -> None:
    async with listening(ann, SESSION_EVENTS) as reader:
        await reader.named("snapshot.end")
        assert gateway.gateway.events.count == 1
