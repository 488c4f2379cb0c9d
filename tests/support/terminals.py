"""Commands on a terminal of their own."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from typing import Final

from tests.support.command_line import PROGRAM, CommandLine

TIMEOUT_S = 60

_AT_IT: Final = "import os, sys; os.login_tty(0); os.execv(sys.argv[1], sys.argv[1:])"
"""A program that has the terminal as its own, so that Ctrl-C is a signal, and becomes another one."""

END_OF_INPUT: Final = "\x04"
INTERRUPT: Final = "\x03\n"
"""Ctrl-C; the line after it ends a read that began just after the signal, which Python raises then."""


def on_a_terminal(ledger: CommandLine, *words: str, typed: str = "", code: int = 0, **environment: str) -> str:
    """Return the output of a command on a terminal of 160 columns, at which a person types a line at each question."""
    ours, theirs = pty.openpty()
    settings = {**ledger.environment, "TERM": "xterm-256color", "COLUMNS": "160", **environment}
    lines = typed.splitlines(keepends=True)
    with subprocess.Popen(
        [sys.executable, "-c", _AT_IT, *PROGRAM, *words],
        cwd=ledger.folder,
        env=settings,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    ) as run:
        os.close(theirs)
        written = b""
        while chunk := _read(ours):
            written += chunk
            if lines and written.endswith(b"]: "):
                os.write(ours, lines.pop(0).encode())
        assert run.wait(timeout=TIMEOUT_S) == code, written
    os.close(ours)
    assert lines == [], f"nothing asked for {lines}: {written!r}"
    return written.decode()


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # Linux says EIO when the other side is closed
        return b""
