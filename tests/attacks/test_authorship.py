"""Forged authorship: answers that look like a person's and are not."""

from __future__ import annotations

from typing import Any

import pytest

from ledger import Ledger
from tests.gateway.callers import Caller, Served
from workers.cli.log import event_line
from workers.presentation.timeline import TimelineFold
from workers.presentation.words import outcome_words

OUR_OWN = ("inbox", "link", "gateway", "told", "local", "cli", "api")


@pytest.fixture
async def taken_over(gateway: Served) -> Caller:
    """An agent whose token brings rules and has the name of a person; `r1` is pending in its session."""
    agent = await gateway.caller("agent", "ann", brings_rules=True)
    await agent.put("/v1/sessions/s1", {"project": "shop"})
    await agent.ask("s1", "git push", always=["git push *"], request_id="r1")
    return agent


async def tell(agent: Caller, reply: str, prompt: str = "editor", **more: Any) -> dict[str, Any]:
    body = {"reply": reply, "prompt": prompt, **more}
    answer = await agent.post("/v1/sessions/s1/asks/r1/answered", body)
    assert answer.status_code == 200, answer.text
    row: dict[str, Any] = answer.json()
    return row


async def log_of(reader: Caller, session: str = "s1") -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = (await reader.get(f"/v1/sessions/{session}/log")).json()["events"]
    return events


@pytest.mark.parametrize("channel", OUR_OWN)
async def test_naming_a_channel_of_the_gateway_as_the_prompt(taken_over: Caller, channel: str) -> None:
    refused = await taken_over.post("/v1/sessions/s1/asks/r1/answered", {"reply": "once", "prompt": channel})
    assert (refused.status_code, refused.json()["code"]) == (422, "INPUT")
    assert f"`{channel}`" in refused.json()["detail"]
    assert (await taken_over.get("/v1/sessions/s1/asks/r1")).json()["outcome"] is None


async def test_recording_an_answer_that_looks_like_a_persons_in_the_inbox(taken_over: Caller, ann: Caller) -> None:
    body = {"reply": "once", "prompt": "editor"}
    row = (await taken_over.post("/v1/sessions/s1/asks/r1/answered", body)).json()
    assert (row["via"], row["told"]) == ("told", "editor")
    token = (await taken_over.get("/v1/me")).json()["token_id"]
    replied = (await log_of(ann))[-1]
    assert replied["actor"] == {"kind": "agent", "name": "ann", "via": "told", "token_id": token}
    assert replied["event"]["told"] == "editor"
    [line] = [one for one in (await ann.get("/v1/sessions/s1/timeline")).json()["lines"] if one["type"] == "replied"]
    assert line["text"] == "ann (told, not seen: answered at editor) allowed bash `git push` (once)"
    assert line["actor"]["via"] == "told"


async def test_passing_for_a_person_in_the_log_of_the_command_line(taken_over: Caller, ledger: Ledger) -> None:
    await tell(taken_over, "once")
    fold = TimelineFold("s1")
    events = [one async for one in (await ledger.session("s1")).events(follow_on=False)]
    lines = {one.type: event_line(one, fold.line(one)) for one in events}
    assert lines["replied"].endswith("  r1  (told, not seen: answered at editor) allowed bash `git push` (once)")


async def test_passing_for_the_reader_by_bearing_their_name(taken_over: Caller, ledger: Ledger) -> None:
    await tell(taken_over, "once")
    result = await (await ledger.session("s1")).result("r1")
    assert outcome_words(result, "ann") == "Allowed by ann (told, not seen: answered at editor) (once)"


async def test_making_a_grant_of_the_project_by_telling_of_an_always(
    gateway: Served, taken_over: Caller, ann: Caller
) -> None:
    row = await tell(taken_over, "always")
    assert (row["outcome"], row["reply"]) == ("allowed", "session")
    assert row["message"] == "it was answered at the agent's own prompt, so it is kept for this session at most"
    assert (await ann.get("/v1/grants?project=shop")).json() == {"grants": []}
    [grant] = (await ann.get("/v1/grants?session=s1")).json()["grants"]
    assert (grant["scope"], grant["told"]) == ("session", True)
    assert (await taken_over.ask("s1", "git push again")).json()["outcome"] == "allowed"
    other = await gateway.caller("agent", "other")
    await other.put("/v1/sessions/s2", {"project": "shop"})
    assert (await other.ask("s2", "git push again")).json()["outcome"] is None


async def test_making_a_grant_of_the_project_with_an_administrators_token(gateway: Served, ann: Caller) -> None:
    admin = await gateway.caller("admin", "root")
    await admin.put("/v1/sessions/s1", {"project": "shop"})
    await admin.ask("s1", "git push", always=["git push *"], request_id="r1")
    assert (await tell(admin, "always"))["reply"] == "session"
    assert (await ann.get("/v1/grants?project=shop")).json() == {"grants": []}


async def test_telling_the_same_always_again_after_it_was_cut_to_the_session(taken_over: Caller, ann: Caller) -> None:
    first = await tell(taken_over, "always")
    assert (await tell(taken_over, "always"))["version"] == first["version"]
    assert [one["type"] for one in await log_of(ann)].count("replied") == 1


async def test_turning_what_was_told_into_a_persons_answer_by_a_cascade(taken_over: Caller, ann: Caller) -> None:
    await taken_over.ask("s1", "git push origin", request_id="r2")
    await taken_over.ask("s1", "rm x", request_id="r3")
    await tell(taken_over, "always")
    released = (await taken_over.get("/v1/sessions/s1/asks/r2")).json()
    assert (released["outcome"], released["via"], released["told"]) == ("allowed", "told", "editor")
    rejected = await taken_over.post("/v1/sessions/s1/asks/r3/answered", {"reply": "reject", "prompt": "editor"})
    assert (rejected.json()["outcome"], rejected.json()["told"]) == ("rejected", "editor")


async def test_acting_without_leaving_the_token_in_the_log(gateway: Served, ann: Caller, ledger: Ledger) -> None:
    agent = await gateway.caller("agent", "worker")
    tokens = {caller: (await caller.get("/v1/me")).json()["token_id"] for caller in (agent, ann)}
    await agent.put("/v1/sessions/s1", {"project": "shop"})
    for request_id in ("r1", "r2", "r3"):
        await agent.ask("s1", request_id, request_id=request_id, always=[f"{request_id} *"])
    await ann.post("/v1/sessions/s1/asks/r1/reply", {"reply": "always"})
    await agent.post("/v1/sessions/s1/asks/r2/cancel")
    grant = (await ann.post("/v1/grants", {"session": "s1", "permission": "bash", "pattern": "ls"})).json()
    await ann.delete(f"/v1/grants/{grant['grant_id']}")
    await agent.post("/v1/sessions/s1/tools-finished", {"request_id": "r1"})
    await agent.post("/v1/sessions/s1/close")
    by_token = {token: caller for caller, token in tokens.items()}
    named = [(one["type"], by_token.get(one["actor"].get("token_id"))) for one in await log_of(ann)]
    assert named == [
        ("session_opened", agent),
        *[("asked", agent)] * 3,
        ("replied", ann),
        ("cancelled", agent),
        ("granted", ann),
        ("revoked", ann),
        ("tool_finished", agent),
        ("cancelled", agent),
        ("session_closed", agent),
    ]
    [granted] = await ledger.approved_in_project("shop")
    assert granted.grant.by.token_id == tokens[ann]
