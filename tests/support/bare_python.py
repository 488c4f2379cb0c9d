"""A Python environment in which this project is installed without some of its extras."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path

from ledger.core.extras import PACKAGES


def python_without(folder: Path, *extras: str) -> Path:
    """Make a virtual environment with the packages of this one, those of the extras left out; its interpreter."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True, timeout=60)
    left_out = {package for extra in extras for package in PACKAGES[extra]}
    (site,) = folder.glob("lib/python*/site-packages")
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if entry.name.partition("-")[0].lower().replace(".", "_") not in left_out:
            (site / entry.name).symlink_to(entry)
    return folder / "bin" / "python"
