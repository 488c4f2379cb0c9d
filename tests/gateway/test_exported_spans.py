"""The spans of `serve`, to a collector that takes them, that hangs, or that is not there."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from ledger.core.extras import install_line
from ledger.stores.embedded import stop
from tests.journeys.processes import Process, Stage
from tests.support.bare_python import python_without
from tests.support.collector import Collector, collecting
from tests.support.processes import environment_without_settings
from tests.support.waiting import wait_until
from workers.gateway.metrics import FLUSH_SECONDS

ASK = {"permission": "bash", "patterns": ["git push"], "request_id": "r1"}
AT_ONCE = {"OTEL_BSP_SCHEDULE_DELAY": "50"}
NOWHERE = "http://127.0.0.1:9"
SLOW_S = 20.0
"""More than an ask takes on a busy machine, and less than an export or the SDK waits for a collector that hangs."""


@pytest.fixture
def collector() -> Iterator[Collector]:
    with collecting() as found:
        yield found


class Serving:
    """A gateway process with these variables, which an agent calls."""

    def __init__(self, stage: Stage, **variables: str) -> None:
        self.process: Process = stage.run("serve", "--listen", "127.0.0.1:0", **variables)
        self._address = self.process.wait_for_word("  gateway    http").split()[-1]
        made = stage.run("token", "create", "ci", "--role", "agent")
        assert made.wait() == 0
        self._token = made.said[0].strip()

    def ask(self) -> float:
        """Ask, and return the time that the answer took, in seconds."""
        with httpx.Client(
            base_url=self._address, headers={"Authorization": f"Bearer {self._token}"}, timeout=60
        ) as http:
            assert http.put("/v1/sessions/ses_1", json={}).status_code in (200, 201)
            before = time.monotonic()
            assert http.post("/v1/sessions/ses_1/asks", json=ASK).status_code == 202
            return time.monotonic() - before

    def end(self) -> float:
        """End the process, and return the time that it took, in seconds."""
        before = time.monotonic()
        assert self.process.end(signal.SIGINT) == 0
        return time.monotonic() - before


@pytest.mark.slow
def test_a_collector_takes_the_spans_with_the_names_of_the_environment(stage: Stage, collector: Collector) -> None:
    serving = Serving(
        stage,
        OTEL_EXPORTER_OTLP_ENDPOINT=collector.endpoint,
        OTEL_EXPORTER_OTLP_HEADERS="x-key=of-the-collector",
        OTEL_RESOURCE_ATTRIBUTES="deployment.environment.name=test",
        **AT_ONCE,
    )
    serving.ask()
    wait_until(lambda: collector.named("r1"), "the span", 20)
    serving.end()
    [span] = collector.named("r1")
    assert (span.name, span["gen_ai.conversation.id"]) == ("permission_ledger.ask", "ses_1")
    assert span.resource["service.name"] == "permission-ledger"
    assert span.resource["deployment.environment.name"] == "test"
    assert span.resource["telemetry.sdk.language"] == "python"
    assert collector.headers[0]["x-key"] == "of-the-collector"
    assert serving.process.complained == []


@pytest.mark.slow
def test_the_last_spans_are_sent_at_the_end_under_the_name_that_was_chosen(stage: Stage, collector: Collector) -> None:
    serving = Serving(stage, OTEL_EXPORTER_OTLP_ENDPOINT=collector.endpoint, OTEL_SERVICE_NAME="desk")
    serving.ask()
    serving.end()
    assert [one.resource["service.name"] for one in collector.named("r1")] == ["desk"]


@pytest.mark.slow
def test_a_collector_that_hangs_delays_no_ask_and_the_end_by_a_few_seconds(stage: Stage, collector: Collector) -> None:
    collector.answers.clear()
    named = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.endpoint, "OTEL_EXPORTER_OTLP_TIMEOUT": "60"}
    serving = Serving(stage, **named, **AT_ONCE)
    serving.ask()
    wait_until(lambda: collector.tried, "the first export", 20)
    assert serving.ask() < SLOW_S
    assert serving.end() < FLUSH_SECONDS + SLOW_S
    assert "the collector did not take the last spans within 3 s; they are lost" in serving.process.complained[-1]


@pytest.mark.slow
def test_a_collector_that_is_not_there_delays_and_fails_no_ask(stage: Stage) -> None:
    serving = Serving(stage, OTEL_EXPORTER_OTLP_ENDPOINT=NOWHERE, OTEL_EXPORTER_OTLP_TIMEOUT="1", **AT_ONCE)
    assert serving.ask() < SLOW_S
    wait_until(lambda: serving.process.complained, "the failure to be logged", 20)
    assert serving.ask() < SLOW_S
    serving.end()
    assert "Failed to export spans batch" in serving.process.complained[0]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("variables", "told"),
    [
        ({"OTEL_SDK_DISABLED": "true"}, None),
        ({"OTEL_TRACES_EXPORTER": "zipkin"}, None),
        ({"OTEL_ATTRIBUTE_COUNT_LIMIT": "many"}, "spans are not exported: OTEL_ATTRIBUTE_COUNT_LIMIT must be"),
    ],
    ids=["disabled", "another exporter", "no number"],
)
def test_variables_that_are_for_other_programs_keep_the_gateway_from_nothing(
    stage: Stage, variables: dict[str, str], told: str | None
) -> None:
    serving = Serving(stage, OTEL_EXPORTER_OTLP_ENDPOINT=NOWHERE, **variables)
    serving.ask()
    serving.end()
    said = serving.process.complained
    assert said == [] if told is None else (len(said), told in said[0]) == (1, True)


@pytest.mark.slow
def test_without_the_extra_the_gateway_says_so_and_serves(tmp_path: Path) -> None:
    python = python_without(tmp_path / "venv", "telemetry")
    place = {"PERMISSION_LEDGER_HOME": str(tmp_path / "data"), "OTEL_EXPORTER_OTLP_ENDPOINT": NOWHERE}
    serving = subprocess.Popen(
        [python, "-P", "-m", "workers.cli", "serve", "--listen", "127.0.0.1:0"],
        env={**environment_without_settings(), **place},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    )
    try:
        assert serving.stdout is not None
        assert any("signs one browser in" in line for line in serving.stdout)
        os.kill(serving.pid, signal.SIGINT)
        _, complained = serving.communicate(timeout=60)
    finally:
        serving.kill()
        serving.wait()
        stop(tmp_path / "data")
    assert serving.returncode == 0
    [line] = complained.splitlines()
    assert line.endswith(f"spans are not exported: this {install_line('telemetry')}")


def test_without_opentelemetry_a_program_asks_waits_and_runs(tmp_path: Path) -> None:
    python = python_without(tmp_path / "venv", "telemetry")
    program = """
import sys
from ledger import SyncLedger
with SyncLedger.connect("memory://bare") as ledger:
    session = ledger.session("s", rules=[{"permission": "bash", "pattern": "ls", "action": "allow"}])
    with session.permit("bash", ["ls"]):
        pass
    session.submit("bash", ["rm"], request_id="r")
    session.reply("r", "once", actor="ann")
    print(session.wait("r").outcome, any(one.startswith("opentelemetry") for one in sys.modules))
"""
    done = subprocess.run(
        [python, "-P", "-c", program], capture_output=True, text=True, cwd=tmp_path, timeout=60, check=False
    )
    assert (done.stdout, done.stderr) == ("allowed False\n", "")
