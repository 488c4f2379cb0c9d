"""The result of a soak, as a table and as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

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
    lines = [HEADINGS, *map(_line, run.memory)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(HEADINGS))]
    for line in lines:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
    print(f"\n{run.sessions:,} sessions ({run.sealed:,} sealed at the end), {run.events:,} events")
    for name, counts in (
        ("ends", run.outcomes),
        ("killed", run.kills),
        ("redactions", run.redactions),
        ("errors of callers", run.errors),
    ):
        print(f"{name}: " + (", ".join(f"{what} {count:,}" for what, count in sorted(counts.items())) or "none"))
    for one in run.findings:
        print(f"FOUND: {one}")
    print("problems found" if run.findings else "no problems found")


def _line(row: MemoryRow) -> tuple[str, ...]:
    return (
        row.process,
        str(row.samples),
        f"{row.warm_bytes / MEGABYTE:.1f}",
        f"{row.end_bytes / MEGABYTE:.1f}",
        f"{row.a_request:.0f}",
        f"{row.files_warm:.0f}, {row.files_end:.0f}",
        {True: "flat", False: "GROWS", None: "too short a life"}[row.flat],
    )


def write_run(run: SoakRun, file: Path) -> None:
    file.write_bytes(msgspec.json.format(msgspec.json.encode(run), indent=2) + b"\n")
