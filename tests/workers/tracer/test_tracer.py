"""The journeys of calls as spans: what a collector takes of each, on a real server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import TracerProvider

from ledger import Ledger, Session, Timeouts
from ledger.client.trace_contexts import within_trace
from ledger.core.errors import DeniedError
from ledger.core.trace_context import read_trace_context
from ledger.stores.admin import TRACERS
from ledger.stores.port import START
from ledger.testing import TestClock
from projections.call_spans import RUN_BEGINS_MS
from projections.lag import lines_owed
from tests.support.archives import seal_all
from tests.support.backends import as_redis
from tests.support.collector import Collector, TakenSpan
from tests.support.servers import RealServer
from tests.support.waiting import wait_until_async
from workers.expiry.worker import run as run_expiry
from workers.runtime.tracer_losses import losses_in
from workers.tracer.calls import CallReader
from workers.tracer.worker import TracePace, run

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"
QUICK = TracePace(feed_seconds=0.2, claim_idle_seconds=0.5)
ALLOW = [{"permission": "bash", "pattern": "ls *", "action": "allow"}]
DENY = [{"permission": "bash", "pattern": "rm *", "action": "deny"}]
WAITED_S = 20.0


@pytest.fixture
async def ledger(server: RealServer, clock: TestClock) -> AsyncIterator[Ledger]:
    async with Ledger.connect(server.url, clock=clock) as ledger:
        yield ledger


@asynccontextmanager
async def tracing(ledger: Ledger, pace: TracePace = QUICK) -> AsyncIterator[None]:
    stop, ready = asyncio.Event(), asyncio.Event()
    task = asyncio.create_task(run(ledger, stop, pace, ready.set))
    try:
        await ready.wait()
        yield
    finally:
        stop.set()
        await task


async def span_of(collector: Collector, request_id: str) -> TakenSpan:
    [found] = await wait_until_async(lambda: collector.named(request_id), f"the span of {request_id}", WAITED_S)
    return found


async def opened(ledger: Ledger, rules: list[dict[str, str]] | None = None) -> Session:
    return await ledger.session("ses_1", project="shop", agent="coder", rules=rules or [])


async def test_a_call_is_one_span_from_its_ask_to_the_end_of_its_run(
    ledger: Ledger, clock: TestClock, collector: Collector
) -> None:
    async with tracing(ledger):
        session = await opened(ledger)
        await session.submit("bash", ["git push"], request_id="r1", tool={"message_id": "m", "call_id": "call_7"})
        asked = (await session.result("r1")).request.asked_ms
        clock.advance("5s")
        await session.reply("r1", "once", actor="ann")
        claim = await session.claim("r1", runner="runner")
        clock.advance("60s")
        await session.finish("r1", claim.claim_id, ok=True, output="pushed")
        span = await span_of(collector, "r1")
    assert span.name == "execute_tool bash"
    assert span.kind == 1  # internal
    assert span.moments == ["asked", "answered", "claimed", "finished"]
    assert span.start_ns == asked * 1_000_000
    assert span.end_ns - span.start_ns == 65_000 * 1_000_000
    assert span["gen_ai.operation.name"] == "execute_tool"
    assert span["gen_ai.tool.name"] == "bash"
    assert span["gen_ai.tool.call.id"] == "call_7"
    assert span["gen_ai.agent.name"] == "coder"
    assert span["gen_ai.conversation.id"] == "ses_1"
    assert span["permission_ledger.outcome"] == "allowed"
    assert span["permission_ledger.reply"] == "once"
    assert span["permission_ledger.run"] == "ok"
    assert span["permission_ledger.wait_ms"] == 5000
    assert span["error.type"] is None
    assert span.resource["service.name"] == "permission-ledger"
    assert span.resource["deployment.environment.name"] == "test"
    assert collector.headers[0]["x-key"] == "of-the-collector"


async def test_a_session_that_is_sealed_and_brought_back_has_no_span_again(
    ledger: Ledger, clock: TestClock, collector: Collector, tmp_path: Path
) -> None:
    async with tracing(ledger):
        session = await opened(ledger)
        await session.submit("bash", ["git push"], request_id="r1")
        await session.reply("r1", "reject", actor="ann")
        await span_of(collector, "r1")
        clock.advance("1h")
        archive = await seal_all(ledger, tmp_path / "archive")
        (seal,) = await ledger.store.admin.seals([session.stream.key])
        assert seal is not None
        await archive.restore(session.stream.key, seal)
        await session.submit("bash", ["git pull"], request_id="r2")
        await session.reply("r2", "reject", actor="ann")
        await span_of(collector, "r2")
    assert len(collector.named("r1")) == 1


async def test_a_rejected_call_is_a_span_with_an_error_that_ends_at_the_answer(
    ledger: Ledger, collector: Collector
) -> None:
    async with tracing(ledger):
        session = await opened(ledger)
        await session.submit("bash", ["git push"], request_id="r1")
        await session.reply("r1", "reject", actor="ann")
        span = await span_of(collector, "r1")
    assert (span["error.type"], span.status) == ("REJECTED", 2)
    assert span.moments == ["asked", "answered"]


async def test_an_expired_call_is_a_span_whose_deadline_decided(
    ledger: Ledger, clock: TestClock, collector: Collector
) -> None:
    stop = asyncio.Event()
    expiry = asyncio.create_task(run_expiry(ledger, stop))
    async with tracing(ledger):
        session = await ledger.session("ses_1", timeouts=Timeouts(attended=5, unattended=7))
        await session.submit("bash", ["git push"], request_id="r1")
        clock.advance("8s")
        span = await span_of(collector, "r1")
    stop.set()
    await expiry
    assert (span["error.type"], span["permission_ledger.by_kind"]) == ("EXPIRED", "deadline")
    assert (span.end_ns - span.start_ns) // 1_000_000 >= 7000


async def test_a_call_that_a_rule_denies_is_a_span_that_names_the_rule(ledger: Ledger, collector: Collector) -> None:
    async with tracing(ledger):
        session = await opened(ledger, DENY)
        with pytest.raises(DeniedError):
            await session.ask("bash", ["rm x"], request_id="r1")
        span = await span_of(collector, "r1")
    assert (span["error.type"], span["permission_ledger.by_kind"]) == ("DENIED", "rule")
    assert "rm *" in span["permission_ledger.rule"]


async def test_an_allowed_call_that_nobody_claims_is_a_span_that_ends_at_the_allow(
    ledger: Ledger, clock: TestClock, collector: Collector
) -> None:
    async with tracing(ledger):
        session = await opened(ledger, ALLOW)
        await session.submit("bash", ["ls x"], request_id="r1")
        clock.advance(RUN_BEGINS_MS + 1)
        span = await span_of(collector, "r1")
    assert span["permission_ledger.by_kind"] == "rule"
    assert span.end_ns == span.start_ns
    assert span.moments == ["asked", "answered"]


async def test_a_run_that_begins_after_the_span_of_its_call_has_ended_is_a_child_of_it(
    ledger: Ledger, clock: TestClock, collector: Collector
) -> None:
    async with tracing(ledger):
        session = await opened(ledger, ALLOW)
        await session.submit("bash", ["ls x"], request_id="r1")
        clock.advance(RUN_BEGINS_MS + 1)
        whole = await span_of(collector, "r1")
        claim = await session.claim("r1")
        await session.finish("r1", claim.claim_id, ok=False)
        await wait_until_async(lambda: len(collector.spans) == 2, "the span of the run", WAITED_S)
    run = collector.spans[1]
    assert (run.trace_id, run.parent_id) == (whole.trace_id, whole.span_id)
    assert (run.moments, run["error.type"]) == (["claimed", "finished"], "TOOL_FAILED")


async def test_the_span_is_a_child_of_the_callers_span(ledger: Ledger, collector: Collector) -> None:
    async with tracing(ledger):
        session = await opened(ledger)
        with within_trace(read_trace_context(f"00-{TRACE}-{PARENT}-01", "vendor=1")):
            await session.submit("bash", ["git push"], request_id="r1")
        await session.cancel("r1")
        span = await span_of(collector, "r1")
    assert (span.trace_id, span.parent_id, span.state) == (TRACE, PARENT, "vendor=1")


async def test_a_call_of_a_trace_that_is_not_sampled_is_not_exported(ledger: Ledger, collector: Collector) -> None:
    async with tracing(ledger):
        session = await opened(ledger, DENY)
        with within_trace(read_trace_context(f"00-{TRACE}-{PARENT}-00")):
            await session.submit("bash", ["rm x"], request_id="r1")
        await session.submit("bash", ["rm x"], request_id="r2")
        await span_of(collector, "r2")
    assert collector.named("r1") == []


async def test_no_input_and_no_secret_is_in_a_span(ledger: Ledger, collector: Collector) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    async with tracing(ledger):
        session = await opened(ledger, [{"permission": "*", "pattern": f"*{secret[:12]}*", "action": "deny"}])
        await session.submit(f"tool {secret}", [f"curl -H {secret}"], request_id="r1", agent=secret)
        await span_of(collector, "r1")
    assert all(b"curl" not in body and secret.encode() not in body for body in collector.bodies)


async def test_a_collector_that_fails_is_tried_again_until_it_takes_the_spans(
    ledger: Ledger, collector: Collector, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    collector.status = 500
    async with tracing(ledger):
        session = await opened(ledger, DENY)
        await session.submit("bash", ["rm x"], request_id="r1")
        await wait_until_async(lambda: collector.tried, "the first try", WAITED_S)
        await wait_until_async(lambda: "tracer: failed, trying again" in caplog.text, "the log", WAITED_S)
        collector.status = 200
        await span_of(collector, "r1")


async def losses(ledger: Ledger) -> dict[str, int]:
    return {str(loss): count for loss, count in losses_in(await ledger.store.admin.notes(TRACERS)).items()}


@pytest.mark.parametrize("status", [400, 401, 404, 413])
async def test_spans_that_a_collector_refuses_for_good_are_given_up_and_counted(
    ledger: Ledger, collector: Collector, caplog: pytest.LogCaptureFixture, status: int
) -> None:
    collector.status = status
    before = await losses(ledger)
    async with tracing(ledger):
        session = await opened(ledger, DENY)
        for number in (1, 2):
            await session.submit("bash", ["rm x"], request_id=f"r{number}")
            wanted = {**before, "refused": before["refused"] + number}

            async def are_counted(wanted: dict[str, int] = wanted) -> bool:
                return await losses(ledger) == wanted

            await wait_until_async(are_counted, "the refused span to be counted", WAITED_S)
        collector.status = 200
        await session.submit("bash", ["rm x"], request_id="r3")
        await span_of(collector, "r3")
    assert [collector.named(name) for name in ("r1", "r2")] == [[], []]
    assert caplog.text.count(f"(HTTP {status}); they are given up, and counted") == 1
    assert await losses(ledger) == {**before, "refused": before["refused"] + 2}
    assert await lines_owed(ledger.store, TRACERS) == 0


@pytest.mark.parametrize("status", [408, 429, 503])
async def test_a_collector_that_only_asks_for_patience_loses_no_span(
    ledger: Ledger, collector: Collector, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    collector.status = status
    before = await losses(ledger)
    async with tracing(ledger):
        session = await opened(ledger, DENY)
        await session.submit("bash", ["rm x"], request_id="r1")
        await wait_until_async(lambda: collector.tried, "the first try", WAITED_S)
        collector.status = 200
        await span_of(collector, "r1")
    assert await losses(ledger) == before


async def test_a_call_of_the_same_millisecond_is_in_the_append_that_ends_it_alone(ledger: Ledger) -> None:
    session = await opened(ledger, DENY)
    stream = ledger.streams.session("ses_1")
    found = []
    for name in ("r1", "r2"):
        await session.submit("bash", ["rm x"], request_id=name)
        state = await stream.refresh()
        # Each by a reader of its own, as of another tracer.
        spans = (await CallReader(ledger).read("ses_1", state.version)).spans
        found.append((state.last_ms, [dict(span.attributes)["permission_ledger.request_id"] for span in spans]))
    assert found == [(found[0][0], ["r1"]), (found[0][0], ["r2"])]


async def test_two_tracers_share_the_calls_and_export_each_once(ledger: Ledger, collector: Collector) -> None:
    # A line that is taken over while it is read is exported by both, and this machine may be slow.
    never_idle = TracePace(feed_seconds=0.2, claim_idle_seconds=600)
    async with tracing(ledger, never_idle), tracing(ledger, never_idle):
        session = await opened(ledger, DENY)
        names = [f"r{number}" for number in range(40)]
        await asyncio.gather(*(session.submit("bash", ["rm x"], request_id=name) for name in names))
        await wait_until_async(lambda: len(collector.spans) >= len(names), "all spans", WAITED_S)
        assert await wait_until_async(
            lambda: sorted(one["permission_ledger.request_id"] for one in collector.spans) == sorted(names), "each once"
        )


async def test_without_a_trace_an_ask_takes_no_byte_more(ledger: Ledger) -> None:
    session = await opened(ledger)
    await session.submit("bash", ["git push"], request_id="r1")
    entries = await ledger.store.read(session.stream.key, START, 100)
    assert all(b"trace" not in entry.payload + (entry.content or b"") for entry in entries)


async def test_the_same_request_of_another_span_is_the_same_request(ledger: Ledger) -> None:
    session = await opened(ledger)
    for span in (PARENT, "00f067aa0ba902b7"):
        with within_trace(read_trace_context(f"00-{TRACE}-{span}-01")):
            assert (await session.submit("bash", ["git push"], request_id="r1")).outcome is None


async def test_an_ask_in_a_span_of_opentelemetry_is_a_child_of_it(ledger: Ledger, collector: Collector) -> None:
    tracer = TracerProvider(shutdown_on_exit=False).get_tracer("agent")
    async with tracing(ledger):
        session = await opened(ledger, DENY)
        with tracer.start_as_current_span("chat") as around:
            await session.submit("bash", ["rm x"], request_id="r1")
        span = await span_of(collector, "r1")
    context = around.get_span_context()
    assert (span.trace_id, span.parent_id) == (f"{context.trace_id:032x}", f"{context.span_id:016x}")


async def test_a_trace_state_with_a_secret_is_not_recorded(ledger: Ledger) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    session = await opened(ledger)
    with within_trace(read_trace_context(f"00-{TRACE}-{PARENT}-01", f"vendor={secret}")):
        await session.submit("bash", ["git push"], request_id="r1")
    content = b"".join(one.content or b"" for one in await ledger.store.read(session.stream.key, START, 100))
    assert PARENT.encode() in content
    assert secret.encode() not in content


async def test_lines_that_were_trimmed_before_they_were_read_are_told_of(
    ledger: Ledger, clock: TestClock, collector: Collector, caplog: pytest.LogCaptureFixture
) -> None:
    session = await opened(ledger, DENY)
    await session.submit("bash", ["rm x"], request_id="r1")
    feed = as_redis(ledger.store).keys.feed(ledger.store.partition_of(session.stream.key))
    async with tracing(ledger):
        await span_of(collector, "r1")
    clock.advance(1)
    await session.submit("bash", ["rm x"], request_id="r2")
    clock.advance(1)
    await as_redis(ledger.store).command("XTRIM", feed, "MAXLEN", 0)
    before = await losses(ledger)
    await session.submit("bash", ["rm x"], request_id="r3")
    async with tracing(ledger):
        await span_of(collector, "r3")
    assert "fell behind the feeds of 1 partitions" in caplog.text
    assert (await losses(ledger))["gaps"] > before["gaps"]
    assert collector.named("r2") == []


async def test_an_append_that_is_long_past_is_found_by_a_tracer_that_starts(
    ledger: Ledger, clock: TestClock, collector: Collector
) -> None:
    session = await opened(ledger, DENY)
    for number in range(4):
        await session.submit("bash", ["rm x"], request_id=f"r{number}")
        clock.advance("2h")
    async with tracing(ledger):
        await wait_until_async(lambda: len(collector.spans) == 4, "all spans", WAITED_S)
    assert [one["permission_ledger.request_id"] for one in collector.spans] == ["r0", "r1", "r2", "r3"]
