"""Tracers as processes: killed between an export and its acknowledgement, and started with wrong variables."""

from __future__ import annotations

import asyncio
import os
from contextlib import AbstractAsyncContextManager

import pytest

from ledger import Ledger
from tests.support.collector import Collector
from tests.support.processes import worker_process
from tests.support.servers import RealServer
from tests.support.waiting import wait_until_async
from workers.tracer.exporter import check_environment
from workers.tracer.worker import TracePace, run

STARTED_S = 25.0
DENY = [{"permission": "bash", "pattern": "rm *", "action": "deny"}]


def tracer_process(server: RealServer, **more: str) -> AbstractAsyncContextManager[asyncio.subprocess.Process]:
    return worker_process("tracer", "--url", server.url, **more)


async def test_a_tracer_that_is_killed_before_it_acknowledges_leaves_the_same_spans_to_the_next(
    server: RealServer, collector: Collector
) -> None:
    async with Ledger.connect(server.url) as ledger:
        session = await ledger.session("ses_1", rules=DENY)
        collector.answers.clear()
        async with tracer_process(server) as first:
            await session.submit("bash", ["rm x"], request_id="r1")
            await wait_until_async(lambda: collector.named("r1"), "the first export", STARTED_S)
            first.kill()
            await first.wait()
        collector.answers.set()
        stop = asyncio.Event()
        second = asyncio.create_task(run(ledger, stop, TracePace(feed_seconds=0.2, claim_idle_seconds=0.5)))
        await wait_until_async(lambda: len(collector.named("r1")) == 2, "the second export", STARTED_S)
        stop.set()
        await second
    one, again = collector.named("r1")
    assert (one.trace_id, one.span_id, one.start_ns, one.end_ns) == (
        again.trace_id,
        again.span_id,
        again.start_ns,
        again.end_ns,
    )
    assert (one.attributes, one.events) == (again.attributes, again.events)


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"OTEL_SDK_DISABLED": "true"}, "OTEL_SDK_DISABLED is `true`"),
        ({"OTEL_TRACES_EXPORTER": "zipkin"}, "exports by `otlp` alone"),
        ({"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "exports by `http/protobuf` alone"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "collector:4318"}, "must begin with `http://`"),
    ],
    ids=["disabled", "another exporter", "another protocol", "no URL"],
)
async def test_variables_by_which_nothing_would_be_exported_end_it_with_exit_code_12(
    server: RealServer, variables: dict[str, str], said: str
) -> None:
    async with tracer_process(server, **variables) as process:
        _, told = await process.communicate()
    assert process.returncode == 12
    assert said in told.decode()


def test_the_usual_variables_are_accepted(collector: Collector) -> None:
    check_environment(os.environ)
