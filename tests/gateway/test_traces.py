"""The trace context of callers: taken by the gateway from headers and bodies, recorded, and the parent of its spans."""

from __future__ import annotations

from typing import Any

import pytest

from ledger import Ledger
from tests.gateway.callers import Caller, in_process
from tests.support.recorded_spans import ids, recording, told

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = f"00-{TRACE}-b7ad6b7169203331-01"
OTHER = f"00-{TRACE}-00f067aa0ba902b7-01"
ASK = {"permission": "bash", "patterns": ["git push"]}


async def recorded(ledger: Ledger, session: str) -> list[Any]:
    """Return the context of each ask."""
    stream = (await ledger.attach(session)).events(follow_on=False)
    events = [one.as_json() async for one in stream]
    return [one["event"]["detail"].get("trace") for one in events if one["type"] == "asked"]


async def test_headers_are_recorded_with_the_ask(ledger: Ledger, agent: Caller) -> None:
    await agent.put("/v1/sessions/s1")
    answer = await agent.post("/v1/sessions/s1/asks", ASK, traceparent=PARENT, tracestate="vendor=1")
    assert answer.status_code == 202
    assert await recorded(ledger, "s1") == [{"parent": PARENT, "state": "vendor=1"}]


async def test_a_context_in_the_body_comes_before_the_headers(ledger: Ledger, agent: Caller) -> None:
    await agent.put("/v1/sessions/s1")
    await agent.post("/v1/sessions/s1/asks", {**ASK, "trace": {"traceparent": OTHER}}, traceparent=PARENT)
    assert await recorded(ledger, "s1") == [{"parent": OTHER}]


@pytest.mark.parametrize(
    "parent",
    ["", "x", "0" * 200_00, f"00-{'0' * 32}-b7ad6b7169203331-01", f"ff{PARENT[2:]}", PARENT.upper(), f"{PARENT}-more"],
    ids=["empty", "a word", "huge", "no trace", "version ff", "upper case", "longer"],
)
async def test_a_context_that_is_not_valid_is_ignored_and_never_an_error(
    ledger: Ledger, agent: Caller, parent: str
) -> None:
    await agent.put("/v1/sessions/s1")
    body = {**ASK, "trace": {"traceparent": parent, "tracestate": "=" * 10_000}}
    assert (await agent.post("/v1/sessions/s1/asks", body, traceparent=parent)).status_code == 202
    assert await recorded(ledger, "s1") == [None]


@pytest.mark.parametrize("trace", ["x", 7, [], {"traceparent": 7}, {"traceparent": [PARENT]}, {"else": {}}], ids=str)
async def test_a_context_of_another_shape_is_ignored(ledger: Ledger, agent: Caller, trace: Any) -> None:
    await agent.put("/v1/sessions/s1")
    assert (await agent.post("/v1/sessions/s1/asks", {**ASK, "trace": trace})).status_code == 202
    assert await recorded(ledger, "s1") == [None]


async def test_the_spans_of_a_gateway_that_records_are_children_of_its_callers(ledger: Ledger) -> None:
    with recording() as spans:
        async with in_process(ledger) as gateway:
            agent, ann = await gateway.caller("agent", "worker"), await gateway.caller("approver", "ann")
            await agent.put("/v1/sessions/s1")
            asks = "/v1/sessions/s1/asks"
            body = {**ASK, "request_id": "r1", "trace": {"traceparent": OTHER}}
            await agent.post(asks, body, traceparent=PARENT)
            await agent.get(f"{asks}/r1?wait=0.1", traceparent=PARENT)
            await ann.post(f"{asks}/r1/reply", {"reply": "once"})
            claim = (await agent.post(f"{asks}/r1/claim", {"runner": "job-7"}, traceparent=PARENT)).json()
            await agent.post(f"{asks}/r1/finish", {"claim_id": claim["claim_id"], "ok": False}, traceparent=PARENT)
    asked, reply, run = (spans.named(name) for name in ("ask", "reply", "execute_tool bash"))
    parents = {name: spans.named(name).parent for name in spans.names}
    header, said = (int(one.split("-")[2], 16) for one in (PARENT, OTHER))
    assert {name: parent and parent.span_id for name, parent in parents.items()} == {
        "ask": said,
        "reply": None,
        "wait": header,
        "claim": header,
        "execute_tool bash": header,
    }
    assert [ids(link) for link in reply.links] == [ids(asked)]
    assert told(run)["error.type"] == "TOOL_FAILED"
