"""Bridges claim a call before the agent is told, end the claim with what the agent reports, and give it back otherwise."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.ends import Between
from tests.support.gateways import Person, RunningGateway
from tests.support.waiting import wait_until_async
from tests.workers.bridges.acp_talk import SESSION, asks, chosen

CLAIMS: Final = ("claimed", "claim_released", "end_unknown", "tool_finished")


@pytest.fixture
def between(gateway: RunningGateway, tmp_path: Path) -> Iterator[Between]:
    path = tmp_path / "rules.json"
    path.write_text(json.dumps({"permission": {"bash": {"ls *": "allow"}}}))
    made = Between("acp", ["--rules", str(path)], gateway.environment)
    yield made
    made.close()


async def until_told(ann: Person, *expected: str) -> list[dict[str, Any]]:
    async def found() -> list[dict[str, Any]]:
        return [row for row in await ann.events(SESSION) if row["type"] in CLAIMS]

    async def is_so() -> bool:
        return [row["type"] for row in await found()] == list(expected)

    await wait_until_async(is_so, f"the log to say {expected}")
    return await found()


def ends(rpc_id: int, status: str) -> dict[str, Any]:
    update = {"sessionUpdate": "tool_call_update", "toolCallId": f"call_{rpc_id}", "status": status}
    return {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": SESSION, "update": update}}


async def test_a_call_that_a_rule_allows_is_claimed_and_its_end_is_the_one_that_the_agent_reports(
    between: Between, ann: Person
) -> None:
    between.agent.say(asks(0, "ls src"))
    assert between.agent.answer_to(0) == chosen(0, "proceed_once")
    [claimed] = await until_told(ann, "claimed")
    between.agent.say(ends(0, "failed"))
    _, finished = await until_told(ann, "claimed", "tool_finished")
    assert finished["event"]["claim_id"] == claimed["event"]["claim_id"]
    assert finished["event"]["ok"] is False


async def test_what_the_editor_allows_is_claimed_too(between: Between, ann: Person) -> None:
    between.agent.say(asks(0))
    between.host.received()
    between.host.say(chosen(0, "proceed_once"))
    assert between.agent.answer_to(0) == chosen(0, "proceed_once")
    [claimed] = await until_told(ann, "claimed")
    assert " over bridge_" in claimed["event"]["runner"]


async def test_the_claim_of_a_corrected_call_is_given_back(between: Between, ann: Person) -> None:
    between.agent.say(asks(0))
    await ann.answer_next(SESSION, "once", updated_input={"command": "git push --dry-run"})
    assert between.agent.answer_to(0)["result"]["outcome"]["optionId"] == "cancel"
    _, released = await until_told(ann, "claimed", "claim_released")
    assert "takes no corrected call" in released["event"]["detail"]["reason"]


async def test_a_call_of_an_agent_that_ended_without_a_word_may_have_run(between: Between, ann: Person) -> None:
    between.agent.say(asks(0, "ls src"))
    between.agent.answer_to(0)
    between.end_agent()
    _, ended = await until_told(ann, "claimed", "end_unknown")
    assert ended["event"]["cause"] == "agent_ended"
