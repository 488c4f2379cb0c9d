"""Forks end, hear signals and are waited for as processes that were started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.forks import HOOK, Fork, run, start_line
from tests.support.processes import environment_without_settings


def test_a_fork_has_the_exit_code_the_streams_and_the_folder_of_its_own(tmp_path: Path) -> None:
    environment = {**environment_without_settings(), "PERMISSION_LEDGER_HOME": str(tmp_path)}
    assert run(["--version"], env=environment).stdout.startswith("permission-ledger ")
    words = ["bridge", "acp", "--rules", "nosuch.json", "--", "./agent"]
    told = run(words, env=environment)
    assert (told.returncode, told.stdout, "the rules `nosuch.json` cannot be read" in told.stderr) == (12, "", True)
    (tmp_path / "nosuch.json").write_text("{}")
    assert "`./agent` cannot be started" in run([*words, "--grace", "0"], env=environment, cwd=tmp_path).stderr
    assert run([HOOK, "claude"], "no json", env=environment).returncode == 2


def test_a_hook_that_ends_without_reading_its_event_is_started_like_any_other() -> None:
    line = f"{sys.executable} -I {HOOK} claude --nosuch || exit 2"
    with start_line(line, {"more": "x" * 1_000_000}, environment_without_settings()) as process:
        assert (process.communicate(timeout=60)[0], process.returncode) == ("", 2)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=lambda one: one.name)
def test_a_fork_leads_a_session_and_ends_by_a_signal(number: signal.Signals) -> None:
    with Fork([HOOK, "claude"], stdin=subprocess.PIPE) as process:
        assert os.getsid(process.pid) == process.pid
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.01)
        assert process.poll() is None
        os.killpg(process.pid, number)
        assert (process.wait(60), process.poll()) == (-number, -number)
