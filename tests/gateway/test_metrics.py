"""The metrics that Prometheus reads."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from ledger import Ledger
from ledger.testing import TestClock
from tests.gateway.callers import Caller, Served, served
from tests.projections.looking import project_all
from tests.support.servers import RealServer


async def scraped(caller: Caller) -> dict[tuple[str, str], float]:
    answer = await caller.get("/metrics")
    assert answer.status_code == 200
    return {
        (sample.name, ",".join(f"{name}={value}" for name, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


@pytest.fixture
async def other_gateway(server: RealServer, clock: TestClock, sockets: Path) -> AsyncIterator[Served]:
    """A second one on the same ledger, with a connection of its own."""
    async with Ledger.connect(server.url, clock=clock) as beside, served(beside, sockets / "other.sock") as one:
        yield one


async def test_each_ask_counts_once_whichever_gateway_is_scraped(
    gateway: Served, other_gateway: Served, agent: Caller, ann: Caller, ledger: Ledger
) -> None:
    auditor = await gateway.caller("auditor", "prometheus")
    await agent.put("/v1/sessions/s1", {"project": "shop"})
    for request_id in ("r1", "r2"):
        await agent.ask("s1", request_id, request_id=request_id)
    for _ in range(2):
        await ann.post("/v1/sessions/s1/asks/r1/reply", {"reply": "once"})
    behind = await scraped(auditor)
    assert behind["permission_ledger_decisions_total", "decision=user_allow"] == 1, "counted without a projector, too"
    assert behind["permission_ledger_projector_lag_events", ""] > 0, "and it is told that none keeps up"

    await project_all(ledger)
    found = await scraped(auditor)
    wanted = {
        ("permission_ledger_decisions_total", "decision=user_allow"): 1,
        ("permission_ledger_request_duration_seconds_count", "decision=user_allow"): 1,
        ("permission_ledger_request_duration_seconds_bucket", "decision=user_allow,le=+Inf"): 1,
        ("permission_ledger_deadline_lateness_seconds_count", ""): 0,
        ("permission_ledger_pending", ""): 1,
        ("permission_ledger_stream_clients", ""): 0,
        ("permission_ledger_in_doubt_total", ""): 0,
    }
    assert {name: found[name] for name in wanted} == wanted
    assert ("permission_ledger_append_conflicts_total", "") in found

    there = await scraped(await other_gateway.caller("auditor", "prometheus-2"))
    assert {name: there[name] for name in wanted} == wanted


async def test_only_who_sees_everything_reads_the_metrics(gateway: Served, ann: Caller, agent: Caller) -> None:
    bound = await gateway.caller("auditor", "prometheus", projects=["shop"])
    statuses = [(await caller.get("/metrics")).status_code for caller in (ann, agent, bound, gateway.caller_with(None))]
    assert statuses == [403, 403, 403, 401]


async def test_an_append_that_another_process_was_before_is_counted(
    gateway: Served, agent: Caller, ledger: Ledger, server: RealServer, clock: TestClock
) -> None:
    auditor = await gateway.caller("auditor", "prometheus")
    await agent.put("/v1/sessions/s1")
    async with Ledger.connect(server.url, clock=clock) as other:
        await (await other.session("s1")).submit("bash", ["ls"], request_id="r1")
    before = await scraped(auditor)
    assert (await agent.ask("s1", request_id="r2")).status_code == 202
    after = await scraped(auditor)
    conflicts = ("permission_ledger_append_conflicts_total", "")
    assert after[conflicts] - before[conflicts] == 1
