"""The last lines of a run name what it left out, and how to run that."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.closing_lines import folder_of, left_out
from tests.support.programs import ALL_VARIABLE


def test_tools_that_are_not_there_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(ALL_VARIABLE, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert left_out()[:4] == [
        "slow tests and other servers: `make test-all`",
        "real agents: `make test-agents`",
        "the browser (there is no `chromium` on the PATH)",
        "Prometheus's checker (there is no `promtool` on the PATH)",
    ]


@pytest.mark.parametrize(
    ("nodeid", "folder"),
    [
        ("tests/workers/cli/policy/test_a.py::test_it[tests/x]", "workers/cli"),
        ("tests/session/test_a.py::test_it", "session"),
        ("tests/test_a.py::test_it", "tests"),
    ],
)
def test_times_are_told_by_folders_of_two_parts(nodeid: str, folder: str) -> None:
    assert folder_of(nodeid) == folder
