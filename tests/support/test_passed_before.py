"""Tests that passed on a bare machine are left out of a later run, and no others."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.support.passed_before import LOOKING_AT_THE_MACHINE
from tests.support.processes import ROOT

CONFTEST: Final = """
from tests.support import passed_before

def pytest_addoption(parser):
    passed_before.add_options(parser)

def pytest_configure(config):
    passed_before.note(config)

def pytest_collection_modifyitems(config, items):
    passed_before.leave_out(config, items)

def pytest_terminal_summary(terminalreporter):
    passed_before.tell(terminalreporter)
"""

TESTS: Final = """
import pytest

@pytest.fixture
def broken_at_its_end():
    yield
    raise RuntimeError

@pytest.mark.parametrize("letter", ["a", "b"])
def test_passes(letter): ...

def test_fails():
    raise AssertionError

def test_breaks_at_its_end(broken_at_its_end): ...
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for place in ("tests/api", f"tests/{LOOKING_AT_THE_MACHINE[0]}"):
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / "test_it.py").write_text(TESTS)
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --import-mode=importlib\n")
    return tmp_path


def run(folder: Path, *options: str) -> str:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", *options, "tests"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False).stdout


@pytest.mark.parametrize("workers", ["0", "2"])
def test_only_what_passed_whole_and_does_not_look_at_the_machine_is_left_out(folder: Path, workers: str) -> None:
    said = run(folder, "-n", workers, "--note-passed", "passed.json")
    assert "2 failed, 6 passed, 2 errors" in said
    again = run(folder, "-n", "0", "--except-passed", "passed.json")
    assert "PASSED BEFORE: 2 tests" in again
    assert "2 failed, 4 passed, 2 deselected, 2 errors" in again


def test_without_notes_nothing_is_left_out(folder: Path) -> None:
    said = run(folder, "-n", "0", "--except-passed", "nothing.json")
    assert "2 failed, 6 passed, 2 errors" in said
    assert "PASSED BEFORE" not in said
