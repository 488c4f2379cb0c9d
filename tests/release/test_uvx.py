"""`uvx --from . permission-ledger demo`: the line of the README, on a machine with uv alone."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.support.processes import environment_without_settings
from tests.support.release_tools import ROOT, uv

README: Final = (ROOT / "README.md").read_text()


@pytest.mark.slow
def test_the_demo_runs_with_uv_and_nothing_installed(tmp_path: Path) -> None:
    line = re.search(r'^uvx (--from "[^"]+") permission-ledger demo', README, re.MULTILINE)
    assert line is not None
    found = uv()
    assert found is not None
    command = [str(found), "tool", "run", "--from", ".[embedded,gateway]", "permission-ledger", "demo"]
    assert ".[embedded,gateway]" in line[1]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**environment_without_settings(), "HOME": str(tmp_path)},
        check=False,
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    assert "verify" in done.stdout
