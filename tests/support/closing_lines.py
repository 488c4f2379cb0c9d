"""The last lines of a run: the time by folder, and what was left out, with the command that runs it."""

from __future__ import annotations

from collections import defaultdict
from pathlib import PurePosixPath
from typing import Final

import pytest

from tests.support.browsers import browser_left_out
from tests.support.promtool import promtool_left_out
from tests.support.release_tools import release_tests_left_out

SHORT: Final = "not slow"
"""The marker expression of `make test`."""

FOLDERS_COUNT_MAX: Final = 12


def tell(reporter: pytest.TerminalReporter) -> None:
    """Write both. Times are sums over the tests of all workers, with their fixtures."""
    seconds: defaultdict[str, float] = defaultdict(float)
    for reports in reporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                seconds[folder_of(report.nodeid)] += report.duration
    if seconds:
        longest = sorted(seconds.items(), key=lambda one: -one[1])[:FOLDERS_COUNT_MAX]
        shown = ", ".join(f"{folder} {spent:.0f}" for folder, spent in longest)
        reporter.write_line(f"seconds by folder: {shown}; all {sum(seconds.values()):.0f}")
    if reporter.config.getoption("markexpr") == SHORT:
        reporter.write_line(f"left out: {'; '.join(left_out())}")


def folder_of(nodeid: str) -> str:
    """Return the folder of a test below `tests`, of at most two parts."""
    parts = PurePosixPath(nodeid.partition("::")[0]).parts[1:-1]
    return "/".join(parts[:2]) or "tests"


def left_out() -> list[str]:
    """Return what the short suite leaves out on this machine."""
    tools = {
        "the browser": browser_left_out(),
        "Prometheus's checker": promtool_left_out(),
        "the tools of a release": next(iter(release_tests_left_out().values()), None),
    }
    missing = [f"{name} ({reason})" for name, reason in tools.items() if reason]
    return ["slow tests and other servers: `make test-all`", "real agents: `make test-agents`", *missing]
