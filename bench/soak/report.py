"""The result of a soak, as a table and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from bench.report import print_lines
from bench.soak.memory import MEGABYTE, MemoryRow

JSON_VERSION: Final = 1
HEADINGS: Final = ("process", "samples", "MB warm", "MB end", "bytes a request", "files or clients", "")


class SoakRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run, in the form of `--json`. A run without findings has kept every promise that it checks."""

    version: int = JSON_VERSION
    seconds: float
    speed: float
    agents: int
    sessions: int
    sealed: int
    events: int
    outcomes: Mapping[str, int]
    kills: Mapping[str, int]
    redactions: Mapping[str, int]
    errors: Mapping[str, int]
    memory: list[MemoryRow]
    findings: list[str]


def print_run(run: SoakRun) -> None:
    print_lines(HEADINGS, map(cells, run.memory))
    print()
    for line in (*told(run), *(f"FOUND: {one}" for one in run.findings)):
        print(line)
    print("problems found" if run.findings else "no problems found")


def told(run: SoakRun) -> Iterator[str]:
    """Iterate over what a run counted."""
    yield f"{run.sessions:,} sessions ({run.sealed:,} sealed at the end), {run.events:,} events"
    for name, counts in (
        ("ends", run.outcomes),
        ("killed", run.kills),
        ("redactions", run.redactions),
        ("errors of callers", run.errors),
    ):
        yield f"{name}: " + (", ".join(f"{what} {count:,}" for what, count in sorted(counts.items())) or "none")


def cells(row: MemoryRow) -> tuple[str, ...]:
    return (
        row.process,
        str(row.samples),
        f"{row.warm_bytes / MEGABYTE:.1f}",
        f"{row.end_bytes / MEGABYTE:.1f}",
        f"{row.a_request:.0f}",
        f"{row.files_warm:.0f}, {row.files_end:.0f}",
        {True: "flat", False: "GROWS", None: "too short a life"}[row.flat],
    )
