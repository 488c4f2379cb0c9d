"""Attacks by an agent's owner on a rule that requires another person's answer."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from ledger import DemandNotMetError, Ledger
from ledger.core.events import Actor
from ledger.stores.secrets import deployment_secret
from tests.gateway.callers import Caller, Served, in_process
from tests.support.processes import environment_without_settings
from tests.support.servers import RealServer
from workers.gateway.own_rules import rule_file
from workers.gateway.settings import GatewaySettings
from workers.runtime.answer_links import AnswerLink, AnswerLinks

RULES = """{
  "permission": {"*": "ask"},
  "demands": [{"permission": "bash", "pattern": "git push *", "not_by": "asker"}]
}"""
PLACE = "/v1/sessions/ses_1/asks/per_1"


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


@pytest.mark.parametrize("role", ["approver", "admin"])
@pytest.mark.parametrize("reply", ["once", "session", "always", "reject"])
async def test_answering_at_the_inbox(guarded: Served, asked: Caller, role: Any, reply: str) -> None:
    ann = await guarded.caller(role, "ann")
    browser = await guarded.browser((await guarded.ledger.tokens.create("Ann", role)).text)
    browser.http.headers["Origin"] = "http://gateway"
    for who in (ann, browser):
        refused = await who.post(f"{PLACE}/reply", {"reply": reply})
        assert (refused.status_code, refused.json()["code"]) == (403, "DEMAND_NOT_MET")
    assert await is_pending(asked)
    bob = await guarded.caller(role, "bob")
    assert (await bob.post(f"{PLACE}/reply", {"reply": reply})).status_code == 200


async def test_answering_by_opencode_s_routes(guarded: Served, asked: Caller) -> None:
    ann = await guarded.caller("approver", "ann")
    for path, member in (("/permission/per_1/reply", "reply"), ("/session/ses_1/permissions/per_1", "response")):
        refused = await ann.post(path, {member: "once"})
        assert (refused.status_code, refused.json()["name"]) == (403, "DEMAND_NOT_MET")
    assert await is_pending(asked)


async def test_answering_by_a_link(guarded: Served, asked: Caller) -> None:
    row = (await asked.get(PLACE)).json()
    links = AnswerLinks(await deployment_secret(guarded.ledger.store))
    link = AnswerLink("ses_1", "per_1", row["request"]["digest"], "ann", guarded.gateway.now_ms + 60_000)
    visitor = guarded.caller_with(None)
    answer = await visitor.http.post(f"/answer/{links.sign(link)}", data={"reply": "once"})
    assert answer.status_code >= 400
    assert await is_pending(asked)


async def test_answering_by_the_agent_s_own_prompt(guarded: Served) -> None:
    agent = await guarded.caller("agent", "laptop", owner="ann", brings_rules=True)
    demands = [{"not_by": "asker"}]
    await agent.put("/v1/sessions/ses_2", {"rules": {"permission": {"*": "ask"}, "demands": demands}})
    await agent.ask("ses_2", request_id="per_2")
    refused = await agent.post("/v1/sessions/ses_2/asks/per_2/answered", {"reply": "once", "prompt": "editor"})
    assert (refused.status_code, refused.json()["code"]) == (403, "DEMAND_NOT_MET")


async def test_answering_by_the_sdk(guarded: Served, asked: Caller) -> None:
    session = await guarded.ledger.attach("ses_1")
    for actor in ("ann", Actor("local", "ANN"), Actor("person", "worker", "acp")):
        with pytest.raises(DemandNotMetError):
            await session.reply("per_1", "once", actor=actor)
    assert await is_pending(asked)


async def test_answering_by_the_command_line(guarded: Served, asked: Caller, server: RealServer) -> None:
    words = ("reply", "per_1", "once", "--as", "ann", "--url", server.url)
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "workers.cli",
        *words,
        env=environment_without_settings(),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    _, said = await process.communicate()
    assert (process.returncode, b"not answered by its asker" in said) == (12, True)
    assert await is_pending(asked)


async def test_granting_it_in_advance(guarded: Served, asked: Caller) -> None:
    ann = await guarded.caller("approver", "ann")
    body = {"project": "shop", "permission": "bash", "patterns": ["*"]}
    assert (await ann.post("/v1/grants", body)).status_code == 201
    assert (await asked.ask("ses_1", "git push --force", request_id="per_2")).status_code == 202
    assert (await asked.ask("ses_1", "git pull", request_id="per_3")).json()["outcome"] == "allowed"
    bob = await guarded.caller("approver", "bob")
    await bob.post("/v1/grants", body)
    assert (await asked.ask("ses_1", "git push --force", request_id="per_4")).json()["outcome"] == "allowed"


async def test_who_the_owner_is_cannot_be_said_by_the_agent(guarded: Served, ledger: Ledger) -> None:
    made = await ledger.tokens.create("worker", "agent", actor="ann")
    assert made.token.owner == "ann"
    agent = guarded.caller_with(made.text)
    await agent.put("/v1/sessions/ses_1")
    body = {"permission": "bash", "patterns": ["git push"], "request_id": "per_1", "agent": "bob", "owner": "bob"}
    assert (await agent.post("/v1/sessions/ses_1/asks", body)).status_code == 422
    del body["owner"]
    row = (await agent.post("/v1/sessions/ses_1/asks", body)).json()["request"]
    assert (row["owner"], row["demands"]) == ("ann", [{"not_by": "asker"}])
