"""Metrics for Prometheus. Counts of requests come from the views, so they are the same at every gateway.

Open event streams and appends are counted per process.
"""

from __future__ import annotations

import asyncio
from collections import Counter
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
from projections.counts import LATENESS
from projections.lag import set_back_ms
from projections.queries import Histogram

PREFIX: Final = "permission_ledger"

PEOPLE_COUNT: Final = 50
"""People, at most, whose names are labels of a process's metrics."""

OTHER_PEOPLE: Final = "other"


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """All measured values of one moment."""

    decisions: dict[str, int]
    histograms: dict[str, Histogram]
    notifications: dict[tuple[str, str], int]
    answers: dict[tuple[str, str, str], int]
    """Answers by kind and name of who answered, and outcome."""
    answer_hours: tuple[int, ...]
    """Answers by hour of day (UTC)."""
    pending: int
    oldest_pending_seconds: float
    freezes: int
    set_back_seconds: float
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
        return exposition(await self._measure())

    async def _measure(self) -> Measured:
        store = self._ledger.store
        totals, freezes, oldest_ms, now_ms = await asyncio.gather(
            queries.totals(store), self._ledger.freezes.in_force(), queries.oldest_pending_ms(store), store.now_ms()
        )
        return Measured(
            decisions=totals.decisions,
            histograms=totals.histograms,
            notifications=totals.notifications,
            answers=labelled(totals.answers, self._names),
            answer_hours=totals.answer_hours,
            pending=totals.pending,
            oldest_pending_seconds=0.0 if oldest_ms is None else max(now_ms - oldest_ms, 0) / 1000,
            freezes=len(freezes),
            set_back_seconds=await set_back_ms(store) / 1000,
            lag_events=self._lag_events(),
            stream_clients=self._stream_clients(),
            conflicts=self._ledger.streams.tallies.conflicts,
            in_doubt=self._ledger.streams.tallies.in_doubt,
            refused=dict(self._refused),
        )


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

    answers = CounterMetricFamily(
        f"{PREFIX}_answers",
        "Answers of people, by who gave them and the outcome.",
        labels=["kind", "person", "outcome"],
    )
    for labels, count in measured.answers.items():
        answers.add_metric(labels, count)
    yield answers
    hours = CounterMetricFamily(f"{PREFIX}_answer_hours", "Answers of people by hour of day (UTC).", labels=["hour"])
    for hour, count in enumerate(measured.answer_hours):
        hours.add_metric([str(hour)], count)
    yield hours

    yield InfoMetricFamily(f"{PREFIX}_build", "The version of this gateway.", value={"version": _version()})
    yield _gauge("pending", "Requests that wait for a person.", measured.pending)
    yield _gauge(
        "oldest_pending_seconds",
        "Age of the oldest request that waits, 0 without any.",
        measured.oldest_pending_seconds,
    )
    yield _gauge("freezes", "Freezes in force: of the whole ledger, and of projects.", measured.freezes)
    yield _gauge(
        "clock_set_back_seconds",
        "How far the server's clock is behind the newest event; more than 0 after it was set back.",
        measured.set_back_seconds,
    )
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


def _gauge(name: str, text: str, value: float) -> Metric:
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
