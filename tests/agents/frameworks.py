"""The Python frameworks of examples/: pinned in requirements/agents.txt, installed beside this environment and kept."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Final

from tests.agents.clients import OFFLINE_VARIABLE, clients_folder, is_offline
from tests.agents.installing import INSTALL_SECONDS
from tests.support.processes import ROOT

NAME: Final = "python"
LOCK: Final = ROOT / "requirements/agents.txt"
STAMP: Final = "installed"


def folder() -> Path:
    return clients_folder() / f"{NAME}-{hashlib.sha256(LOCK.read_bytes()).hexdigest()[:12]}"


def is_installed() -> bool:
    return (folder() / STAMP).exists()


@cache
def installed() -> Path:
    """Return a folder for PYTHONPATH, installed if needed; fails with pip's own message when that is impossible."""
    if not is_installed():
        assert not is_offline(), f"the frameworks are not installed, and {OFFLINE_VARIABLE}=1"
        words = ["--quiet", "--require-hashes", "--only-binary", ":all:", "--upgrade", "--target", str(folder())]
        command = [sys.executable, "-m", "pip", "install", *words, "--requirement", str(LOCK)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False)
        assert done.returncode == 0, f"{' '.join(command)}:\n{done.stderr[-2000:]}"
        (folder() / STAMP).touch()
    return folder()
