"""The browser that tests drive: Chromium on the PATH, which `scripts/ci-tools` brings."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from tests.support.programs import all_are_wanted

NAMES: Final = ("chromium", "chromium-browser", "google-chrome")


def chromium() -> Path:
    """Fails when there is none."""
    found = _found()
    assert found, "no Chromium on this machine; `scripts/ci-tools` brings it"
    return found


def browser_left_out() -> str | None:
    """Return the reason to run the tests without a browser; None when there is one, or must be."""
    if _found() or all_are_wanted():
        return None
    return "there is no `chromium` on the PATH"


def _found() -> Path | None:
    paths = [shutil.which(name) for name in NAMES]
    return next((Path(path) for path in paths if path), None)
