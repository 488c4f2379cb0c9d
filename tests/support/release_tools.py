"""Programs of a release: the tools of `.venv-release`, uv among them. Tests that need a missing one are left out.

Where nothing may be left out (`make test-all`), they run and fail.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from tests.support.programs import all_are_wanted

ROOT: Final = Path(__file__).resolve().parents[2]
TOOLS: Final = ROOT / ".venv-release" / "bin"
PYTHON: Final = TOOLS / "python"
UV: Final = TOOLS / "uv"
MIKE: Final = TOOLS / "mike"

CARRIED: Final = {
    "index-url": ("UV_DEFAULT_INDEX", " "),
    "extra-index-url": ("UV_INDEX", " "),
    "find-links": ("UV_FIND_LINKS", ","),
    "no-index": ("UV_NO_INDEX", ""),
    "cert": ("SSL_CERT_FILE", ""),
}
"""Options of pip; each with the variable that says the same to uv, and what stands between its values."""

FALSE: Final = frozenset({"", "0", "false", "no", "off"})
"""Values with which an option of pip is off."""


def release_tests_left_out() -> dict[str, str]:
    """Return the files of tests/release that are left out, each with the reason."""
    if all_are_wanted():
        return {}
    return {
        name: f"`{needed.relative_to(ROOT)}` is missing; `make setup-release` makes it"
        for name, needed in (("test_site.py", PYTHON), ("test_uvx.py", UV), ("test_versions.py", MIKE))
        if not needed.exists()
    }


def pip_settings() -> list[str]:
    """Return the settings of pip in its files and environment, as `pip config list` writes them."""
    command = [sys.executable, "-m", "pip", "config", "list"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


def index_environment(settings: Iterable[str]) -> dict[str, str]:
    """Return variables with which uv takes packages from where pip takes them, by pip's settings.

    A variable of the environment wins over a file for an option, as in pip.
    """
    found: dict[str, str] = {}
    for line in sorted(settings, key=lambda one: one.startswith(":env:.")):
        name, _, written = line.partition("=")
        option = name.rpartition(".")[2]
        value = str(ast.literal_eval(written))
        if option not in CARRIED:
            continue
        variable, between = CARRIED[option]
        if option == "no-index":
            value = "" if value.lower() in FALSE else "1"
        found[variable] = between.join(value.split()) if between else value
    # pip asks all of its indexes, and takes the best.
    found["UV_INDEX_STRATEGY"] = "unsafe-best-match"
    return {variable: value for variable, value in found.items() if value}
