"""Attacks on a rule that requires several people: one person, an agent, a link or a program alone never allows."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from ledger import DamageError, DemandNotMetError, Ledger, Session
from ledger.core.commitments import after_entry
from ledger.core.events import Actor
from ledger.stores.keys import Keys
from ledger.stores.port import StreamKey
from ledger.stores.secrets import deployment_secret
from tests.gateway.callers import Caller, Served, in_process
from tests.support.servers import RealServer
from workers.gateway.own_rules import rule_file
from workers.gateway.settings import GatewaySettings
from workers.runtime.answer_links import AnswerLink, AnswerLinks
from workers.upkeep.stream_checks import check_stream, read_anchors

RULES = """{
  "permission": {"*": "ask"},
  "demands": [{"permission": "bash", "pattern": "git push *", "approvers": 2}]
}"""
PLACE = "/v1/sessions/ses_1/asks/per_1"
SESSION = StreamKey("session", "ses_1")


@pytest.fixture
async def guarded(ledger: Ledger, sockets: Path) -> AsyncIterator[Served]:
    file = sockets / "opencode.json"
    file.write_text(RULES)
    settings = GatewaySettings(policies={"opencode": rule_file("opencode", file)})
    async with in_process(ledger, settings) as one:
        yield one


@pytest.fixture
async def asked(guarded: Served) -> Caller:
    """An agent of ann's with a pending request."""
    agent = await guarded.caller("agent", "worker", owner="ann")
    await agent.put("/v1/sessions/ses_1", {"project": "shop"})
    assert (await agent.ask("ses_1", "git push", request_id="per_1", always=["git *"])).status_code == 202
    return agent


async def is_pending(agent: Caller) -> bool:
    return (await agent.get(PLACE)).json()["outcome"] is None


async def replies(who: Caller, **more: Any) -> Any:
    return await who.post(f"{PLACE}/reply", {"reply": "once", **more})


async def link_of(guarded: Served, asked: Caller, name: str) -> str:
    row = (await asked.get(PLACE)).json()
    links = AnswerLinks(await deployment_secret(guarded.ledger.store))
    link = AnswerLink("ses_1", "per_1", row["request"]["digest"], name, guarded.gateway.now_ms + 60_000)
    return f"/answer/{links.sign(link)}"


async def test_one_person_through_every_channel_is_one_yes(guarded: Served, asked: Caller) -> None:
    bob = await guarded.caller("approver", "bob")
    first = await replies(bob)
    assert first.status_code == 200
    row = first.json()
    assert (row["outcome"], row["message"]) == (None, "approved by `bob`; waits for 1 more person")
    assert row["approvals"] | {"given": [one["by"] for one in row["approvals"]["given"]]} == {
        "needed": 2, "waits_for": "1 more person", "missing": 1, "among": [], "given": ["bob"],
    }  # fmt: skip
    other = await guarded.caller("admin", "Bob")
    browser = await guarded.browser((await guarded.ledger.tokens.create("BOB", "approver")).text)
    browser.http.headers["Origin"] = "http://gateway"
    for who in (bob, other, browser):
        assert (await replies(who)).json()["outcome"] is None
    visitor = guarded.caller_with(None)
    page = await visitor.http.post(await link_of(guarded, asked, "bob"), data={"reply": "once"})
    assert "waits for 1 more person" in page.text
    requests = [{"session": "ses_1", "request_id": "per_1", "digest": row["request"]["digest"]}]
    many = await bob.post("/v1/pending/replies", {"reply": "once", "requests": requests})
    assert [one["outcome"] for one in many.json()["replies"]] == [None]
    for path, member in (("/permission/per_1/reply", "reply"), ("/session/ses_1/permissions/per_1", "response")):
        told = await bob.post(path, {member: "once"})
        assert (told.status_code, "needs more people" in told.text) == (409, True)
    local = await Session(guarded.ledger, "ses_1").reply("per_1", "once", actor=Actor("local", "bob"))
    assert local.outcome is None
    assert await is_pending(asked)
    entries = (await guarded.ledger.store.open(SESSION)).entries
    assert [b'"type":"agreed"' in one.payload for one in entries].count(True) == 1
    eve = await guarded.caller("approver", "eve")
    last = (await replies(eve)).json()
    assert (last["outcome"], [one["by"] for one in last["approvals"]["given"]]) == ("allowed", ["bob", "eve"])


async def test_a_link_shows_who_approved_and_gives_its_person_s_yes(guarded: Served, asked: Caller) -> None:
    visitor = guarded.caller_with(None)
    for name in ("bob", "eve"):
        await guarded.caller("approver", name)
    bobs, eves = await link_of(guarded, asked, "bob"), await link_of(guarded, asked, "eve")
    assert "Approve (1 of 2)" in (await visitor.http.get(bobs)).text
    page = (await visitor.http.post(bobs, data={"reply": "once"})).text
    assert "You approved this" in page
    assert 'value="once"' not in page
    shown = (await visitor.http.get(eves)).text
    assert "Approve (2 of 2)" in shown
    assert "Allowed by bob and you (once)" in (await visitor.http.post(eves, data={"reply": "once"})).text


@pytest.mark.parametrize("reply", ["session", "always"])
async def test_an_answer_with_a_grant_is_refused(guarded: Served, asked: Caller, reply: str) -> None:
    bob = await guarded.caller("admin", "bob")
    refused = await replies(bob, reply=reply)
    assert (refused.status_code, refused.json()["code"]) == (403, "DEMAND_NOT_MET")
    assert "answer `once` or `reject`" in refused.json()["detail"]


async def test_the_owner_of_the_asker_and_its_agent_do_not_count(guarded: Served, asked: Caller) -> None:
    await replies(await guarded.caller("approver", "bob"))
    for name in ("ann", "ANN", "worker"):
        refused = await replies(await guarded.caller("admin", name))
        assert (refused.status_code, refused.json()["code"]) == (403, "DEMAND_NOT_MET")
    assert (await replies(asked)).status_code == 403
    assert await is_pending(asked)


async def test_the_agent_s_side_reports_no_yes(guarded: Served) -> None:
    agent = await guarded.caller("agent", "laptop", owner="ann", brings_rules=True)
    rules = {"permission": {"*": "ask"}, "demands": [{"approvers": 2}]}
    await agent.put("/v1/sessions/ses_2", {"rules": rules})
    await agent.ask("ses_2", request_id="per_2")
    await Session(guarded.ledger, "ses_2").reply("per_2", "once", actor="bob")
    refused = await agent.post("/v1/sessions/ses_2/asks/per_2/answered", {"reply": "once", "prompt": "editor"})
    assert (refused.status_code, refused.json()["code"]) == (403, "DEMAND_NOT_MET")


async def test_an_agent_that_opens_its_session_with_other_rules_keeps_the_demand(ledger: Ledger) -> None:
    session = await ledger.session("ses_1", rules={"permission": {"bash": "ask"}}, demands=[{"approvers": 2}])
    await session.submit("bash", ["git push"], request_id="per_1")
    await ledger.session("ses_1", rules={"permission": {"bash": "ask"}})
    assert (await session.reply("per_1", "once", actor="bob")).outcome is None
    assert (await session.reply("per_1", "once", actor="eve")).outcome == "allowed"


async def test_a_process_of_the_asker_answers_in_its_own_name(ledger: Ledger) -> None:
    session = await ledger.session("ses_1", rules={"permission": {"bash": "ask"}}, demands=[{"approvers": 2}])
    await session.submit("bash", ["git push"], request_id="per_1", actor="robot")
    for actor in (Actor("agent", "other"), Actor("person", "robot"), Actor("system", "ledger")):
        with pytest.raises(DemandNotMetError):
            await session.reply("per_1", "once", actor=actor)


async def test_a_yes_by_two_clients_of_one_person_at_once_is_one_yes(guarded: Served, asked: Caller) -> None:
    bobs = [await guarded.caller("approver", name) for name in ("bob", "Bob", "BOB", "bob")]
    rows = [one.json() for one in await asyncio.gather(*(replies(one) for one in bobs))]
    assert [one["outcome"] for one in rows] == [None] * 4
    assert await is_pending(asked)


# --- the log ----------------------------------------------------------------------------------------------------------


async def write_allow(server: RealServer, ledger: Ledger, **members: Any) -> None:
    """Append an allow by one person, as a program would that knows nothing of several approvers."""
    last = (await ledger.store.open(SESSION)).entries[-1]
    payload = {
        "v": 1,
        "id": f"evt_other_{last.version}",
        "prev": after_entry(last.ms, last.version, last.payload),
        "actor": {"kind": "person", "name": "bob", "via": "inbox"},
        "event": {"type": "replied", "request_id": "per_1", "reply": "once", "outcome": "allowed", **members},
    }
    async with Redis.from_url(server.url, protocol=2) as client:
        name = Keys(ledger.store.partition_count).stream(SESSION)
        await client.xadd(name, {"d": json.dumps(payload)}, id=f"{last.ms + 1}-{last.version + 1}")


async def problems_of(ledger: Ledger) -> list[str]:
    checked = await check_stream(ledger.store, SESSION, None, await read_anchors(ledger.store, None))
    return [f"{one.kind}: {one.text}" for one in checked.problems]


async def demanding(ledger: Ledger) -> Session:
    session = await ledger.session("ses_1", rules={"permission": {"bash": "ask"}}, demands=[{"approvers": 2}])
    await session.submit("bash", ["git push"], request_id="per_1")
    return session


@pytest.mark.parametrize("members", [{}, {"approvers": ["bob", "eve"]}, {"cause": {"kind": "grant", "grant_id": "g"}}])
async def test_an_allow_by_one_that_another_program_wrote_is_reported_and_not_told(
    server: RealServer, ledger: Ledger, members: Any
) -> None:
    session = await demanding(ledger)
    assert await problems_of(ledger) == []
    await write_allow(server, ledger, **members)
    (problem,) = await problems_of(ledger)
    assert "unproven: version 3: request `per_1` was allowed, and 2 people must approve it" in problem
    with pytest.raises(DamageError, match="2 people must approve it"):
        await session.wait("per_1")


# --- tokens under other names ---------------------------------------------------------------------------------------


async def made_by(maker: Caller, guarded: Served, name: str, role: str = "approver", **more: Any) -> Caller:
    """Return the caller of a token that somebody made at the gateway."""
    made = await maker.post("/v1/tokens", {"name": name, "role": role, **more})
    assert made.status_code == 201, made.text
    return guarded.caller_with(made.json()["token"])


@pytest.mark.parametrize("scope", [{}, {"projects": ["shop"]}])
async def test_one_admin_with_tokens_under_other_names_is_one_yes(
    guarded: Served, asked: Caller, scope: dict[str, Any]
) -> None:
    boss = await guarded.caller("admin", "boss", **scope)
    dora = await made_by(boss, guarded, "dora", **scope)
    deep = await made_by(await made_by(boss, guarded, "sub", "admin", **scope), guarded, "emil", **scope)
    browser = await guarded.browser(dora.http.headers["Authorization"].removeprefix("Bearer "))
    browser.http.headers["Origin"] = "http://gateway"
    assert (await replies(dora)).json()["outcome"] is None
    for who in (boss, deep, browser, dora):
        assert (await replies(who)).json()["outcome"] is None
    page = await guarded.caller_with(None).http.post(await link_of(guarded, asked, "emil"), data={"reply": "once"})
    assert "waits for 1 more person" in page.text
    assert await is_pending(asked)
    entries = (await guarded.ledger.store.open(SESSION)).entries
    assert [b'"made_by":"boss"' in one.payload for one in entries if b'"type":"agreed"' in one.payload] == [True]
    bob = await guarded.caller("approver", "bob")
    assert (await replies(bob)).json()["outcome"] == "allowed"


async def test_a_name_and_its_maker_are_one_yes_by_the_sdk_too(ledger: Ledger) -> None:
    session = await demanding(ledger)
    for actor in (Actor("person", "boss"), Actor("person", "dora", "gateway", "tok_1", "boss")):
        result = await session.reply("per_1", "once", actor=actor)
    assert result.outcome is None


async def test_the_maker_of_an_agent_s_token_counts_as_its_asker(guarded: Served) -> None:
    boss = await guarded.caller("admin", "boss")
    agent = await made_by(boss, guarded, "robot", "agent", owner="ann", projects=["shop"])
    await agent.put("/v1/sessions/ses_1", {"project": "shop"})
    await agent.ask("ses_1", "git push", request_id="per_1")
    refused = await replies(boss)
    assert (refused.status_code, refused.json()["code"]) == (403, "DEMAND_NOT_MET")


async def test_a_name_of_the_rule_that_somebody_else_made_counts_as_its_maker(guarded: Served) -> None:
    session = await guarded.ledger.session(
        "ses_1", rules={"permission": {"bash": "ask"}}, demands=[{"approvers": 2, "among": ["ann", "bob"]}]
    )
    await session.submit("bash", ["git push"], request_id="per_1")
    boss = await guarded.caller("admin", "boss")
    refused = await replies(await made_by(boss, guarded, "ann"))
    assert (refused.status_code, "with a token that `boss` made" in refused.json()["detail"]) == (403, True)
