"""Metrics for Prometheus. Counts of requests come from the views, so they are the same at every gateway.

Open event streams and appends are counted per process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Final

import msgspec
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, InfoMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from ledger import Ledger
from projections import queries
from projections.durations import LATENESS
from projections.queries import Histogram

PREFIX: Final = "permission_ledger"


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """All measured values of one moment."""

    decisions: dict[str, int]
    histograms: dict[str, Histogram]
    notifications: dict[tuple[str, str], int]
    pending: int
    freezes: int
    lag_events: int
    stream_clients: int
    conflicts: int
    in_doubt: int
    refused: dict[str, int]


class Metrics:
    """The metrics of one gateway process. `lag_events` tells the views' lag before this process updated them."""

    def __init__(
        self,
        ledger: Ledger,
        stream_clients: Callable[[], int],
        refused: Mapping[str, int],
        lag_events: Callable[[], int],
    ) -> None:
        self._ledger = ledger
        self._refused = refused
        self._stream_clients = stream_clients
        self._lag_events = lag_events

    async def text(self) -> bytes:
        """Return the exposition, `text/plain; version=1.0.0`. Raises StoreError."""
        return exposition(await self._measure())

    async def _measure(self) -> Measured:
        totals, freezes = await asyncio.gather(queries.totals(self._ledger.store), self._ledger.freezes.in_force())
        return Measured(
            decisions=totals.decisions,
            histograms=totals.histograms,
            notifications=totals.notifications,
            pending=totals.pending,
            freezes=len(freezes),
            lag_events=self._lag_events(),
            stream_clients=self._stream_clients(),
            conflicts=self._ledger.streams.tallies.conflicts,
            in_doubt=self._ledger.streams.tallies.in_doubt,
            refused=dict(self._refused),
        )


def exposition(measured: Measured) -> bytes:
    """Return the text in Prometheus's format. Pure."""
    registry = CollectorRegistry()
    registry.register(_Collected(_families(measured)))
    return generate_latest(registry)


class _Collected(Collector):
    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = list(families)

    def collect(self) -> Iterable[Metric]:
        return self._families


def _families(measured: Measured) -> Iterable[Metric]:
    decisions = CounterMetricFamily(
        f"{PREFIX}_decisions", "Requests by how they ended, each once, whoever decided.", labels=["decision"]
    )
    for decision, count in measured.decisions.items():
        decisions.add_metric([decision], count)
    yield decisions

    durations = HistogramMetricFamily(
        f"{PREFIX}_request_duration_seconds", "From the ask to the outcome.", labels=["decision"]
    )
    for decision in measured.decisions:
        histogram = measured.histograms[decision]
        durations.add_metric([decision], _cumulative(histogram), histogram.sum_seconds)
    yield durations

    lateness = HistogramMetricFamily(
        f"{PREFIX}_deadline_lateness_seconds", "From a deadline to the event that applied it."
    )
    lateness.add_metric([], _cumulative(measured.histograms[LATENESS]), measured.histograms[LATENESS].sum_seconds)
    yield lateness

    notifications = CounterMetricFamily(
        f"{PREFIX}_notifications", "Notifications by service and result.", labels=["service", "result"]
    )
    for (service, result), count in measured.notifications.items():
        notifications.add_metric([service, result], count)
    yield notifications

    yield InfoMetricFamily(f"{PREFIX}_build", "The version of this gateway.", value={"version": _version()})
    yield _gauge("pending", "Requests that wait for a person.", measured.pending)
    yield _gauge("freezes", "Freezes in force: of the whole ledger, and of projects.", measured.freezes)
    yield _gauge("projector_lag_events", "Events that the views do not have yet.", measured.lag_events)
    yield _gauge("stream_clients", "Event streams open at this gateway.", measured.stream_clients)
    yield _counter("append_conflicts", "Append conflicts of this process (lost races, retried).", measured.conflicts)
    refused = CounterMetricFamily(f"{PREFIX}_quota_refusals", "Refusals of this process, by quota.", labels=["quota"])
    for quota, count in measured.refused.items():
        refused.add_metric([quota], count)
    yield refused
    yield _counter("in_doubt", "Writes of this process that got no answer.", measured.in_doubt)


@cache
def _version() -> str:
    """Return the version of the installed distribution; `unknown` in a tree that is not installed."""
    try:
        return version("permission-ledger")
    except PackageNotFoundError:
        return "unknown"


def _gauge(name: str, text: str, value: int) -> Metric:
    return GaugeMetricFamily(f"{PREFIX}_{name}", text, value=value)


def _counter(name: str, text: str, value: int) -> Metric:
    return CounterMetricFamily(f"{PREFIX}_{name}", text, value=value)


def _cumulative(histogram: Histogram) -> list[tuple[str, float]]:
    total = 0
    rows: list[tuple[str, float]] = []
    for bound, count in histogram.buckets:
        total += count
        rows.append(("+Inf" if bound is None else str(float(bound)), total))
    return rows
