"""The entry point in a project whose path has packages of the same names as ours."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from workers.runtime.children import own_command, own_module

SCRIPT = str(Path(sys.executable).with_name("permission-ledger"))
NAMES = ("ledger", "projections", "workers")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project whose packages end the process that imports them."""
    for name in NAMES:
        folder = tmp_path / name
        folder.mkdir()
        (folder / "__init__.py").write_text("raise SystemExit('a package of the project was imported')\n")
    return tmp_path


def run(project: Path, *command: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": "."}
    return subprocess.run(
        command, cwd=project, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    "command", [[SCRIPT], [sys.executable, "-m", "permission_ledger"], own_command()], ids=["script", "module", "own"]
)
def test_the_command_imports_no_package_of_the_project(project: Path, command: list[str]) -> None:
    done = run(project, *command, "pending", "--url", "memory://")
    assert (done.returncode, done.stderr) == (0, "nothing is pending\n")


def test_a_process_of_ours_imports_no_package_of_the_project(project: Path) -> None:
    done = run(project, *own_module("workers.gateway.beside.child"))
    assert (done.returncode, done.stderr) == (0, "")


def test_the_project_that_was_made_would_be_imported(project: Path) -> None:
    done = run(project, sys.executable, "-P", "-m", "workers.cli", "--version")
    assert "a package of the project was imported" in done.stderr
