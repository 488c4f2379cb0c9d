"""The installed line of a hook, and a bridge, hash the files that a call executes before anybody is asked."""

from __future__ import annotations

import asyncio
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.gateways import Person, RunningGateway
from tests.workers.bridges.test_hook_claude import SESSION, Hook, ended, event
from workers.bridges.options import BridgeOptions
from workers.bridges.tool_calls import GatewayJudge, ToolCall
from workers.transport.gateway_client import GatewayClient


@pytest.fixture
def hook(gateway: RunningGateway, tmp_path: Path) -> Hook:
    rules = tmp_path / "rules.json"
    rules.write_text(json.dumps({"permissions": {"allow": ["Bash(mytool *)"]}}))
    return Hook(gateway, rules)


def operand(path: Path, content: bytes) -> dict[str, Any]:
    path.write_bytes(content)
    return {"path": str(path), "sha256": hashlib.sha256(content).hexdigest(), "size_bytes": len(content)}


async def test_a_hook_hashes_the_script_before_the_card_appears(hook: Hook, ann: Person, tmp_path: Path) -> None:
    script = operand(tmp_path / "deploy.sh", b"echo 1\n")
    asking = hook.start(event("./deploy.sh prod", cwd=str(tmp_path)))
    shown = await ann.answer_next(SESSION, "once")
    assert shown["operands"] == [script]
    assert ended(asking)[1]["permissionDecision"] == "allow"


async def test_a_hook_in_an_open_session_hashes_too(hook: Hook, ann: Person, tmp_path: Path) -> None:
    assert hook(event("mytool x"))[1]["permissionDecision"] == "allow"
    script = operand(tmp_path / "build.mk", b"all:\n")
    asking = hook.start(event("make -f build.mk", "toolu_2", cwd=str(tmp_path)))
    shown = await ann.answer_next(SESSION, "reject")
    assert shown["operands"] == [script]
    assert ended(asking)[1]["permissionDecision"] == "deny"


async def test_a_bridge_hashes_the_makefile_before_the_card_appears(
    gateway: RunningGateway, ann: Person, tmp_path: Path
) -> None:
    makefile = operand(tmp_path / "Makefile", b"all:\n")
    async with GatewayClient(gateway.agent_place) as client:
        judge = GatewayJudge(client, BridgeOptions(), "ses_bridge", agent="x", cwd=str(tmp_path))
        asking = asyncio.create_task(
            judge.judge(ToolCall("call_1", "Bash", {"command": "make all"}, cwd=str(tmp_path)))
        )
        shown = await ann.answer_next("ses_bridge", "once")
        assert shown["operands"] == [makefile]
        assert (await asking).behaviour == "allow"
