"""`demo` as a new user runs it: in a pipe, on a terminal, with its data kept, and with errors."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.journeys.processes import ROOT, Process, Stage, is_alive
from tests.support.servers import RealServer
from tests.support.waiting import wait_until

DEMO = ["-m", "workers.cli", "demo"]


def plays(words: list[str], **environment: str) -> tuple[int, str, str]:
    """Run the demo; return exit code, stdout and stderr."""
    process = Process([*DEMO, *words], environment)
    return process.wait(), "".join(process.said), "".join(process.complained)


def on_a_terminal(**environment: str) -> str:
    ours, theirs = pty.openpty()
    settings = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm-256color", "COLUMNS": "90", **environment}
    settings = {name: value for name, value in settings.items() if value}
    with subprocess.Popen(
        [sys.executable, *DEMO], cwd=ROOT, env=settings, stdin=theirs, stdout=theirs, stderr=theirs
    ) as demo:
        os.close(theirs)
        written = b""
        while chunk := _read(ours):
            written += chunk
        assert demo.wait(timeout=60) == 0
    os.close(ours)
    return written.decode()


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:
        return b""


@pytest.fixture
def temporary() -> Iterator[Path]:
    """A folder with a path short enough for a socket in it."""
    with tempfile.TemporaryDirectory(prefix="pl-") as folder:
        yield Path(folder)


def test_it_tells_the_whole_story_in_a_pipe_and_leaves_nothing_behind(temporary: Path) -> None:
    code, told, complained = plays([], TMPDIR=str(temporary))
    assert (code, complained) == (0, "")
    assert "\x1b" not in told
    for words in (
        "ann       allowed bash `git status --short` (once)",
        "allowed by rule `glob * allow`",
        "ann       allowed bash `git log --oneline -5` (always), remembered for the project: `git log *`",
        "(always, following call_log)",
        "ann       allowed bash `python -m pytest -q` (session), remembered for the session: `python -m *`",
        "Stay offline: docs/rounding.md says how this shop rounds.",
        "allowed by ann's grant of bash `python -m *`",
        "denied by rule `bash git push * deny`",
        "in 2s: it expired",
        "ann (always, cascade)",
        "15 requests: 12 allowed, 1 corrected, 1 denied, 1 expired",
        "permission-ledger verify demo",
        "all is well",
        "permission-ledger rebuild --verify",
        "none differ",
        "permission-ledger up",
    ):
        assert words in told, f"{words}\n{told}"
    assert list(temporary.iterdir()) == []


def test_a_terminal_gets_colour_unless_it_is_refused() -> None:
    assert "\x1b[32mallowed" in on_a_terminal(NO_COLOR="")
    assert "\x1b" not in on_a_terminal(NO_COLOR="1")


def test_what_is_kept_can_be_looked_at_afterwards_and_played_again(stage: Stage) -> None:
    keep = str(stage.folder.path)
    assert [plays(["--keep", keep])[0], plays(["--keep", keep])[0]] == [0, 0]
    sessions = stage.run("sessions", "--json")
    assert sessions.wait() == 0
    assert len(sessions.said) == 2
    assert stage.run("verify", "--all").wait() == 0


def test_it_plays_on_another_server_too(server: RealServer) -> None:
    code, told, _ = plays(["--url", server.url])
    assert code == 0
    assert f"PERMISSION_LEDGER_URL={server.url} permission-ledger replay demo" in told


@pytest.mark.parametrize("victim", ["expiry", "agent"])
def test_it_says_so_when_one_of_its_processes_dies(victim: str) -> None:
    demo = Process(DEMO)
    line = demo.wait_for_word("processes").split()
    os.kill(int(line[line.index(victim) + 1].rstrip(",")), signal.SIGKILL)
    assert demo.wait() == 1
    assert demo.complained[0] == f"error: the {victim} ended with exit code -9\n"


def test_ctrl_c_ends_all_of_it() -> None:
    demo = Process(DEMO)
    line = demo.wait_for_word("processes").split()
    demo.wait_for_word("git status")
    assert demo.end(signal.SIGINT) == 130
    members = [int(word.rstrip(",")) for word in line if word.rstrip(",").isdigit()]
    assert len(members) == 4
    wait_until(lambda: not any(map(is_alive, members)), "all of them to be gone")
