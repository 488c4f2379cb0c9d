"""Tests that passed in another run of the same commit: one run notes them, and a later one leaves them out.

Continuous integration runs the suite on a bare machine first. What passed there is not run once more with everything
installed, except where a test looks at the machine itself.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import pytest

NOTE: Final = "--note-passed"
EXCEPT: Final = "--except-passed"

LOOKING_AT_THE_MACHINE: Final = ("house", "journeys", "release", "servers", "stores", "support")
"""The folders of tests that see which programs are there."""


def add_options(parser: pytest.Parser) -> None:
    parser.addoption(NOTE, metavar="FILE", default=None, help="write the names of the tests that passed to this file")
    parser.addoption(EXCEPT, metavar="FILE", default=None, help="leave out the tests that such a file names")


def note(config: pytest.Config) -> None:
    """Note what passes, where that is asked for; the reports of all workers come to one process."""
    path = config.getoption(NOTE)
    if path is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Notes(Path(path)))


def leave_out(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Remove the tests that passed before. A file that is not there names none."""
    passed = _noted(config)
    left = [item for item in items if item.nodeid not in passed]
    if len(left) < len(items):
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid in passed])
        items[:] = left


def tell(reporter: pytest.TerminalReporter) -> None:
    """Write how many tests passed before; nothing in a run that leaves none out."""
    if passed := _noted(reporter.config):
        reporter.section(f"PASSED BEFORE: {len(passed)} tests, in another run of this commit")


def _noted(config: pytest.Config) -> frozenset[str]:
    path = config.getoption(EXCEPT)
    return frozenset(json.loads(Path(path).read_text())) if path is not None and Path(path).exists() else frozenset()


class _Notes:
    """Collects the reports of a run."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._passed: set[str] = set()
        self._others: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed:
            self._passed.add(report.nodeid)
        elif not report.passed:
            self._others.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        names = sorted(one for one in self._passed - self._others if not _looks_at_the_machine(one))
        self._path.write_text(json.dumps(names))


def _looks_at_the_machine(name: str) -> bool:
    return name.startswith(tuple(f"tests/{folder}/" for folder in LOOKING_AT_THE_MACHINE))
