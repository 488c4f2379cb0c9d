"""`uvx --from . permission-ledger demo`: the line of the README, on a machine with uv alone, and the same with a wheel."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.support.processes import environment_without_settings
from tests.support.release_tools import ROOT, UV, index_environment, pip_settings

README: Final = (ROOT / "README.md").read_text()
EXTRAS: Final = "[embedded,gateway]"


def run_demo(source: str, home: Path) -> subprocess.CompletedProcess[str]:
    """Run the demo of a checkout or a wheel with an empty home, in the locked versions of its packages."""
    ours = environment_without_settings()
    environment = {
        # What a developer's uv is told counts for nothing here.
        **{name: value for name, value in ours.items() if not name.startswith(("UV_", "VIRTUAL_ENV", "XDG_"))},
        **index_environment(pip_settings()),
        "HOME": str(home),
        "UV_CONSTRAINT": str(ROOT / "requirements" / "runtime.txt"),
        "UV_NO_CONFIG": "1",
        "UV_PYTHON_DOWNLOADS": "never",
    }
    command = [str(UV), "tool", "run", "--python", sys.executable, "--from", source, "permission-ledger", "demo"]
    return subprocess.run(command, cwd=ROOT, env=environment, check=False, capture_output=True, text=True, timeout=220)


def demo_of_a_checkout(home: Path) -> str:
    line = re.search(r'^uvx --from "([^"]+)" permission-ledger demo', README, re.MULTILINE)
    assert line is not None
    assert line[1] == f".{EXTRAS}"
    return line[1]


def demo_of_a_wheel(home: Path) -> str:
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(home / "dist")]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, env={**os.environ, "NO_COLOR": "1"})
    [wheel] = (home / "dist").glob("*.whl")
    return f"{wheel}{EXTRAS}"


@pytest.mark.slow
@pytest.mark.parametrize("source", [demo_of_a_checkout, demo_of_a_wheel], ids=["checkout", "wheel"])
def test_the_demo_runs_with_uv_and_nothing_installed(source: object, tmp_path: Path) -> None:
    assert UV.exists(), "no uv of the release's tools in this checkout; `make setup-release` brings it"
    assert callable(source)
    done = run_demo(source(tmp_path), tmp_path)
    assert done.returncode == 0, done.stderr
    assert "events of 3 streams checked: all is well" in done.stdout
    assert (tmp_path / ".cache" / "uv").is_dir(), "nothing was there before"
