"""Hooks and bridges carry the trace context of the agent to the gateway."""

from __future__ import annotations

import json
from pathlib import Path

from ledger import Ledger
from tests.support.ends import Between
from tests.support.gateways import RunningGateway
from tests.workers.bridges.acp_talk import SESSION, asks
from tests.workers.bridges.test_hook_claude import SESSION as HOOKED
from tests.workers.bridges.test_hook_claude import Hook, event, hook
from workers.transport.place import trace_headers

__all__ = ["hook"]

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
OTHER = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01"


async def contexts(gateway: RunningGateway, session: str) -> list[str | None]:
    async with Ledger.connect(gateway.server.url) as ledger:
        events = [one.as_json()["event"] async for one in (await ledger.attach(session)).events(follow_on=False)]
    asked = [one["detail"] for one in events if "verdict" in one]
    return [one["trace"]["parent"] if "trace" in one else None for one in asked]


async def test_a_hook_carries_the_context_of_its_environment(hook: Hook, gateway: RunningGateway) -> None:
    hook.more = {"TRACEPARENT": PARENT, "TRACESTATE": "vendor=1"}
    assert hook(event("mytool x"))[1]["permissionDecision"] == "allow"
    assert await contexts(gateway, HOOKED) == [PARENT]


async def test_a_hook_whose_context_is_no_header_asks_all_the_same(hook: Hook, gateway: RunningGateway) -> None:
    hook.more = {"TRACEPARENT": f"{PARENT}\r\nx-evil: 1"}
    assert hook(event("mytool x"))[1]["permissionDecision"] == "allow"
    assert await contexts(gateway, HOOKED) == [None]


async def test_a_bridge_carries_the_context_of_a_request_else_that_of_its_environment(
    gateway: RunningGateway, tmp_path: Path
) -> None:
    rules = tmp_path / "rules.json"
    rules.write_text(json.dumps({"permission": {"bash": {"ls *": "allow"}}}))
    between = Between("acp", ["--rules", str(rules)], {**gateway.environment, "TRACEPARENT": PARENT})
    try:
        for number, meta in enumerate(({"traceparent": OTHER}, None, {"traceparent": 7}, "x")):
            said = asks(number, "ls src")
            said["params"] |= {} if meta is None else {"_meta": meta}
            between.agent.say(said)
            between.agent.answer_to(number)
    finally:
        between.close()
    assert await contexts(gateway, SESSION) == [OTHER, PARENT, PARENT, PARENT]


def test_only_what_can_be_a_header_is_one() -> None:
    assert trace_headers({}) == {}
    assert trace_headers({"TRACEPARENT": PARENT, "TRACESTATE": "a=1\n"}) == {"traceparent": PARENT}
    assert trace_headers({"TRACEPARENT": "0" * 257}) == {}
    assert trace_headers({"TRACEPARENT": "é"}) == {}
