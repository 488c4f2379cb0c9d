"""Second tries: for browsers and other people's agents alone, and each is told in the last lines of the run.

They are other people's programs. What the tests of our own logic find is found the first time.
"""

from __future__ import annotations

from typing import Final

import pytest

BROWSER_FIXTURE: Final = "browser"
AGENTS_MARKER: Final = "agents"
RERUN: Final = "rerun"
"""The outcome that pytest-rerunfailures gives a report which is followed by another try."""


def may_be_tried_again(item: pytest.Item) -> bool:
    """Return whether a test drives a browser or a real agent."""
    names: list[str] = getattr(item, "fixturenames", [])
    return BROWSER_FIXTURE in names or item.get_closest_marker(AGENTS_MARKER) is not None


def allow(items: list[pytest.Item]) -> None:
    for item in items:
        if may_be_tried_again(item):
            item.add_marker(pytest.mark.flaky(reruns=1))


def tell(reporter: pytest.TerminalReporter) -> None:
    """Write how many tests were tried again, and which; nothing where there were none."""
    names = [report.nodeid for report in reporter.getreports(RERUN)]
    if not names:
        return
    reporter.section(f"SECOND TRIES: {len(names)}", red=True)
    for name in names:
        reporter.write_line(name)
