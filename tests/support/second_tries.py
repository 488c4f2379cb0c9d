"""Second tries: for browsers and other people's agents only, each reported in the last lines of the run.

Their faults are not ours. A test of our own logic has one try.
"""

from __future__ import annotations

from typing import Final

import pytest

BROWSER_FIXTURE: Final = "browser"
AGENTS_MARKER: Final = "agents"
ERROR_LINES_COUNT: Final = 12
RERUN: Final = "rerun"
"""The outcome that pytest-rerunfailures gives a report when another try follows it."""


def may_be_tried_again(item: pytest.Item) -> bool:
    """Return whether a test drives a browser or a real agent."""
    names: list[str] = getattr(item, "fixturenames", [])
    return BROWSER_FIXTURE in names or item.get_closest_marker(AGENTS_MARKER) is not None


def allow(items: list[pytest.Item]) -> None:
    for item in items:
        if may_be_tried_again(item):
            item.add_marker(pytest.mark.flaky(reruns=1))


def tell(reporter: pytest.TerminalReporter) -> None:
    """Write how many tests were tried again, their names, and why the first try failed; nothing when there were none."""
    reports = reporter.getreports(RERUN)
    if not reports:
        return
    reporter.section(f"SECOND TRIES: {len(reports)}", red=True)
    for report in reports:
        reporter.write_line(report.nodeid)
        for line in _why(report.longreprtext):
            reporter.write_line(f"    {line}")


def _why(traceback: str) -> list[str]:
    """Return the lines of the error (`E   …`), and the place where it was raised."""
    lines = traceback.rstrip().splitlines()
    errors = [line for line in lines if line.startswith("E ")]
    return [*errors[:ERROR_LINES_COUNT], *lines[-1:]]
