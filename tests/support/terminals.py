"""Commands on a terminal of their own."""

from __future__ import annotations

import os
import pty
import subprocess

from tests.support.command_line import PROGRAM, ROOT, CommandLine

TIMEOUT_S = 60


def on_a_terminal(ledger: CommandLine, *words: str, typed: str = "", code: int = 0, **environment: str) -> str:
    """Return the output of a command on a terminal of 160 columns, at which a person types."""
    ours, theirs = pty.openpty()
    settings = {**ledger.environment, "TERM": "xterm-256color", "COLUMNS": "160", **environment}
    with subprocess.Popen(
        [*PROGRAM, *words], cwd=ROOT, env=settings, stdin=theirs, stdout=theirs, stderr=theirs
    ) as run:
        os.close(theirs)
        os.write(ours, typed.encode())  # the terminal keeps it until the command reads
        written = b""
        while chunk := _read(ours):
            written += chunk
        assert run.wait(timeout=TIMEOUT_S) == code, written
    os.close(ours)
    return written.decode()


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # Linux says EIO when the other side is closed
        return b""
