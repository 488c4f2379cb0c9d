"""Second tries are for browsers and agents only, and are reported."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.support.processes import ROOT

pytestmark = pytest.mark.slow

CONFTEST: Final = """
import pytest
from tests.support import second_tries

tries = []

@pytest.fixture
def browser(): ...

@pytest.fixture
def first_try():
    tries.append(1)
    return len(tries) == 1

def pytest_collection_modifyitems(items):
    second_tries.allow(items)

def pytest_terminal_summary(terminalreporter):
    second_tries.tell(terminalreporter)
"""


def run(folder: Path, test: str) -> subprocess.CompletedProcess[str]:
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_it.py").write_text(f"import pytest\n\n{test}\n    assert not first_try\n")
    (folder / "pytest.ini").write_text("[pytest]\nmarkers =\n    agents(name): one\n")
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(folder)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    "test",
    ["def test_it(browser, first_try):", "@pytest.mark.agents('codex')\ndef test_it(first_try):"],
    ids=["browser", "agent"],
)
def test_what_other_peoples_programs_spoil_is_tried_again_counted_and_told(tmp_path: Path, test: str) -> None:
    done = run(tmp_path, test)
    assert done.returncode == 0, done.stdout
    assert "SECOND TRIES: 1" in done.stdout
    assert "    E       assert not True" in done.stdout
    assert "1 passed, 1 rerun" in done.stdout.splitlines()[-1]


def test_logic_that_fails_once_has_failed(tmp_path: Path) -> None:
    done = run(tmp_path, "def test_it(first_try):")
    assert done.returncode == 1
    assert "SECOND TRIES" not in done.stdout
