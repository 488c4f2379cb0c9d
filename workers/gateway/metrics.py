"""Metrics for Prometheus. Counts of requests come from the views, so they are the same at every gateway.

Open event streams and appends are counted per process.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

from litestar import Request
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, InfoMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from ledger import Ledger
from ledger.client.spans import hand_over, recording_api
from ledger.core.event_shapes import TraceContext, read_trace_context
from ledger.core.extras import missing_extra
from projections import queries
from projections.counts import LATENESS
from projections.lag import set_back_ms
from projections.queries import Histogram

PREFIX: Final = "permission_ledger"

PEOPLE_COUNT: Final = 50
"""People, at most, whose names are labels of a process's metrics."""

OTHER_PEOPLE: Final = "other"


class Metrics:
    """The metrics of one gateway process. `lag_events` tells the views' lag before this process updated them."""

    def __init__(
        self,
        ledger: Ledger,
        stream_clients: Callable[[], int],
        refused: Mapping[str, int],
        lag_events: Callable[[], int],
        *,
        has_names: bool = True,
    ) -> None:
        self._ledger = ledger
        self._names = PersonLabels() if has_names else None
        self._refused = refused
        self._stream_clients = stream_clients
        self._lag_events = lag_events

    async def text(self) -> bytes:
        """Return the exposition, `text/plain; version=1.0.0`. Raises StoreError."""
        registry = CollectorRegistry()
        registry.register(_Collected([*await self._of_views(), *self._of_this_process()]))
        return generate_latest(registry)

    async def _of_views(self) -> list[Metric]:
        store = self._ledger.store
        totals, freezes, oldest_ms, now_ms, back_ms = await asyncio.gather(
            queries.totals(store),
            self._ledger.freezes.in_force(),
            queries.oldest_pending_ms(store),
            store.now_ms(),
            set_back_ms(store),
        )
        answers = labelled(totals.answers, self._names)
        hours = {str(hour): count for hour, count in enumerate(totals.answer_hours)}
        durations = {name: totals.histograms[name] for name in totals.decisions}
        oldest = 0.0 if oldest_ms is None else max(now_ms - oldest_ms, 0) / 1000
        return [
            _counts(
                "decisions", "Requests by how they ended, each once, whoever decided.", ["decision"], totals.decisions
            ),
            _histograms("request_duration_seconds", "From the ask to the outcome.", ["decision"], durations),
            _histograms(
                "deadline_lateness_seconds",
                "From a deadline to the event that applied it.",
                [],
                {"": totals.histograms[LATENESS]},
            ),
            _counts(
                "notifications", "Notifications by service and result.", ["service", "result"], totals.notifications
            ),
            _counts(
                "answers",
                "Answers of people, by who gave them and the outcome.",
                ["kind", "person", "outcome"],
                answers,
            ),
            _counts("answer_hours", "Answers of people by hour of day (UTC).", ["hour"], hours),
            InfoMetricFamily(f"{PREFIX}_build", "The version of this gateway.", value={"version": _version()}),
            _gauge("pending", "Requests that wait for a person.", totals.pending),
            _gauge("oldest_pending_seconds", "Age of the oldest request that waits, 0 without any.", oldest),
            _gauge("freezes", "Freezes in force: of the whole ledger, and of projects.", len(freezes)),
            _gauge(
                "clock_set_back_seconds",
                "How far the server's clock is behind the newest event; more than 0 after it was set back.",
                back_ms / 1000,
            ),
        ]

    def _of_this_process(self) -> list[Metric]:
        tallies = self._ledger.streams.tallies
        return [
            _gauge("projector_lag_events", "Events that the views do not have yet.", self._lag_events()),
            _gauge("stream_clients", "Event streams open at this gateway.", self._stream_clients()),
            _count("append_conflicts", "Append conflicts of this process (lost races, retried).", tallies.conflicts),
            _counts("quota_refusals", "Refusals of this process, by quota.", ["quota"], self._refused),
            _count("in_doubt", "Writes of this process that got no answer.", tallies.in_doubt),
        ]


class PersonLabels:
    """The names of people as labels: the first 50 that were seen, those with most answers first; `other` for others.

    A name keeps its label while the process runs, so that no count goes down.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], None] = {}

    def learn(self, answers: Mapping[tuple[str, str, str], int]) -> None:
        """Take names of answers while there is room."""
        totals: Counter[tuple[str, str]] = Counter()
        for (kind, name, _), count in answers.items():
            totals[kind, name] += count
        for who, _ in sorted(totals.items(), key=lambda one: (-one[1], one[0])):
            if len(self._known) < PEOPLE_COUNT:
                self._known.setdefault(who)

    def of(self, kind: str, name: str) -> str:
        return name if (kind, name) in self._known else OTHER_PEOPLE


def labelled(
    answers: Mapping[tuple[str, str, str], int], names: PersonLabels | None
) -> dict[tuple[str, str, str], int]:
    """Return answers by kind, label of the person and outcome; the label is empty where names are left out."""
    if names is not None:
        names.learn(answers)
    found: Counter[tuple[str, str, str]] = Counter()
    for (kind, name, outcome), count in answers.items():
        found[kind, "" if names is None else names.of(kind, name), outcome] += count
    return dict(sorted(found.items()))


class _Collected(Collector):
    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def collect(self) -> list[Metric]:
        return self._families


@cache
def _version() -> str:
    """Return the version of the installed distribution; `unknown` in a tree that is not installed."""
    try:
        return version("permission-ledger")
    except PackageNotFoundError:
        return "unknown"


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(f"{PREFIX}_{name}", text, value=value)


def _count(name: str, text: str, value: int) -> Metric:
    return CounterMetricFamily(f"{PREFIX}_{name}", text, value=value)


def _counts(name: str, text: str, labels: list[str], counts: Mapping[Any, int]) -> Metric:
    """Return a counter by labels; the keys of `counts` are the values of one label, or tuples of those of several."""
    family = CounterMetricFamily(f"{PREFIX}_{name}", text, labels=labels)
    for key, count in counts.items():
        family.add_metric([key] if isinstance(key, str) else key, count)
    return family


def _histograms(name: str, text: str, labels: list[str], found: Mapping[str, Histogram]) -> Metric:
    family = HistogramMetricFamily(f"{PREFIX}_{name}", text, labels=labels)
    for label, histogram in found.items():
        family.add_metric([label] if labels else [], _cumulative(histogram), histogram.sum_seconds)
    return family


def _cumulative(histogram: Histogram) -> list[tuple[str, float]]:
    total = 0
    rows: list[tuple[str, float]] = []
    for bound, count in histogram.buckets:
        total += count
        rows.append(("+Inf" if bound is None else str(float(bound)), total))
    return rows


log = logging.getLogger(__name__)

FLUSH_SECONDS: Final = 3.0
"""The time limit for the collector to take the last spans at the end of the process."""

_ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")


def trace_of(said: Any, request: Request[Any, Any, Any]) -> TraceContext | None:
    """Return the context of an ask: that of its body, else that of its headers; None without a valid one, no error."""
    sources = (said if isinstance(said, dict) else {}, request.headers)
    found = (read_trace_context(one.get("traceparent"), one.get("tracestate")) for one in sources)
    return next(filter(None, found), None)


async def take_context(request: Request[Any, Any, Any]) -> None:
    """Make the spans of a request children of its caller's span."""
    hand_over(trace_of(None, request))


@contextmanager
def exporting_spans() -> Iterator[None]:
    """Export the spans of this process during the block, where the environment names a collector.

    A provider that was set before stays. Spans are sent by a thread, from a queue of bounded size. What keeps them from
    being exported is logged: the variables may be meant for other programs, and asks never depend on spans.
    """
    named = any(os.environ.get(name, "").strip() for name in _ENDPOINTS)
    is_wanted = named and (os.environ.get("OTEL_TRACES_EXPORTER") or "otlp") == "otlp" and recording_api() is None
    provider = _provider() if is_wanted else None
    try:
        yield
    finally:
        if provider is not None:
            # The SDK waits up to 30 s for a collector that does not answer.
            flushing = threading.Thread(target=provider.shutdown, name="flush spans", daemon=True)
            flushing.start()
            flushing.join(FLUSH_SECONDS)
            if flushing.is_alive():
                log.warning("the collector did not take the last spans within %g s; they are lost", FLUSH_SECONDS)


def _provider() -> Any:
    """Set and return a provider with the standard settings of the environment; None, and a warning, where it cannot."""
    try:
        from opentelemetry import trace  # noqa: PLC0415 - an extra
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415
        from opentelemetry.sdk.resources import OTELResourceDetector, Resource  # noqa: PLC0415
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415

        # The detector again: a name given here would win over that of the environment.
        resource = Resource.create({"service.name": "permission-ledger"}).merge(OTELResourceDetector().detect())
        provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    except (ImportError, ValueError) as error:
        log.warning("spans are not exported: %s", (isinstance(error, ImportError) and missing_extra(error)) or error)
        return None
    trace.set_tracer_provider(provider)
    return provider
