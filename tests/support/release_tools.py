"""Programs of a release: the tools of `.venv-release`, and uv. Tests that need a missing one are left out."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
PYTHON: Final = ROOT / ".venv-release" / "bin" / "python"


def uv() -> Path | None:
    """Return uv, if it is on the PATH."""
    found = shutil.which("uv")
    return None if found is None else Path(found)


def release_tests_left_out() -> dict[str, str]:
    """Return the files of tests/release that are left out, each with the reason."""
    reasons = {}
    if not PYTHON.exists():
        reasons["test_site.py"] = "`.venv-release` is missing; `make setup-release` makes it"
    if uv() is None:
        reasons["test_uvx.py"] = "there is no `uv` on the PATH"
    return reasons
