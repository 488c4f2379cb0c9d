"""A bridge's own file of rules, changed while a call waits or between two calls."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from tests.support.gateways import Person, RunningGateway
from tests.support.waiting import wait_until_async
from workers.bridges.options import BridgeOptions
from workers.bridges.tool_calls import GatewayJudge, ToolCall
from workers.transport.gateway_client import GatewayClient

WITHIN_S = 5.0


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    file = tmp_path / "settings.json"
    write(file)
    return file


def write(file: Path, *denied: str) -> None:
    file.write_text(json.dumps({"permissions": {"ask": ["Bash"], "deny": list(denied)}}))


def spoil(file: Path) -> None:
    file.write_text("{")


def push(request_id: str) -> ToolCall:
    return ToolCall(request_id, "Bash", {"command": "git push"})


@pytest.mark.slow
async def test_a_deny_that_is_added_while_a_call_waits_stops_a_later_yes(
    gateway: RunningGateway, ann: Person, rules: Path
) -> None:
    async with GatewayClient(gateway.agent_place) as client:
        judge = GatewayJudge(client, BridgeOptions(rules=str(rules)), "ses_1", agent="a")
        judging = asyncio.create_task(judge.judge(push("r1")))
        await ann.waiting("ses_1")
        before = (await client.call("GET", "/v1/sessions/ses_1"))["version"]
        write(rules, "Bash(git push:*)")

        async def recorded() -> bool:
            return bool((await client.call("GET", "/v1/sessions/ses_1"))["version"] > before)

        await wait_until_async(recorded, "the changed rules to be recorded", WITHIN_S)
        await ann.reply("ses_1", "r1", "once")
        verdict = await judging
    assert (verdict.behaviour, verdict.outcome) == ("deny", "denied")
    assert "git push" in verdict.message


async def test_a_changed_file_judges_the_next_call(gateway: RunningGateway, rules: Path) -> None:
    async with GatewayClient(gateway.agent_place) as client:
        judge = GatewayJudge(client, BridgeOptions(rules=str(rules)), "ses_1", agent="a")
        await judge.open()
        write(rules, "Bash(git push:*)")
        assert (await judge.judge(push("r1"))).outcome == "denied"


async def test_a_file_that_is_no_rules_any_more_allows_nothing(gateway: RunningGateway, rules: Path) -> None:
    async with GatewayClient(gateway.agent_place) as client:
        judge = GatewayJudge(client, BridgeOptions(rules=str(rules)), "ses_1", agent="a")
        await judge.open()
        spoil(rules)
        verdict = await judge.judge(push("r1"))
    assert (verdict.behaviour, verdict.row) == ("deny", None)
    assert "are not JSON" in verdict.message
