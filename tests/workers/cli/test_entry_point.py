"""The entry point in a project whose path has packages of the same names as ours."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.command_line import CommandLine
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
    done = run(project, *own_module("workers.cli"), "--version")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
@pytest.mark.parametrize(
    "command", [[SCRIPT], [sys.executable, "-m", "permission_ledger"], own_command()], ids=["script", "module", "own"]
)
def test_processes_that_share_its_work_import_no_package_of_the_project(
    project: Path, ledger: CommandLine, command: list[str]
) -> None:
    ledger("ask", "ses_1", "bash", "make", "--no-wait", code=7)
    done = run(project, *command, "verify", "--all", "--jobs", "2", "--url", ledger.url)
    assert (done.returncode, "all is well" in done.stderr) == (0, True), done.stderr


@pytest.mark.slow
def test_processes_that_share_its_work_import_nothing_of_the_folder_it_stands_in(
    ledger: CommandLine, tmp_path: Path
) -> None:
    (tmp_path / "multiprocessing.py").write_text("raise SystemExit('a module of the folder was imported')\n")
    ledger("ask", "ses_1", "bash", "make", "--no-wait", code=7)
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONSAFEPATH")}
    words = (SCRIPT, "verify", "--all", "--jobs", "2", "--url", ledger.url)
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, "all is well" in done.stderr) == (0, True), done.stderr


def test_the_project_that_was_made_would_be_imported(project: Path) -> None:
    done = run(project, sys.executable, "-P", "-m", "workers.cli", "--version")
    assert "a package of the project was imported" in done.stderr
