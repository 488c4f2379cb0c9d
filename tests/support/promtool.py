"""Prometheus's checker of rules, which is which `scripts/ci-tools` brings."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.support.programs import all_are_wanted


def promtool() -> Path:
    """Return its path. Fails when there is none."""
    found = shutil.which("promtool")
    assert found, "no promtool on this machine; `scripts/ci-tools` brings it"
    return Path(found)


def promtool_left_out() -> str | None:
    """Return the reason to run the tests without it; None when it is there, or must be."""
    if shutil.which("promtool") or all_are_wanted():
        return None
    return "there is no `promtool` on the PATH"
