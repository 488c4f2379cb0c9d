"""Python programs of a page, run as files."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.command_line import ROOT
from tests.support.processes import environment_without_settings


@contextmanager
def python_file(file: Path, home: Path) -> Iterator[subprocess.Popen[str]]:
    """Run the file as a program of its own, with its ledger in the data folder."""
    process = subprocess.Popen(
        [sys.executable, file],
        cwd=file.parent,
        env={**environment_without_settings(), "PERMISSION_LEDGER_HOME": str(home), "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        with process:
            yield process
    finally:
        process.kill()
