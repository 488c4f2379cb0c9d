"""A program on a terminal of its own: its screen is read, and keys are sent to it."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import signal
import struct
import termios
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from tests.support.waiting import wait_until

ROWS_COLUMNS: Final = (45, 160)
LONG_S: Final = 45.0
_CONTROL: Final = re.compile(rb"\x1b\[[0-9;?<>=]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[()][A-Z0-9]|\x1b.")


class Terminal:
    """A started program; `close` ends it. White space is left out of the output: programs move the cursor instead."""

    def __init__(self, command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> None:
        self._shown = b""
        self._pid, self._descriptor = pty.fork()
        if self._pid == 0:
            os.chdir(folder)
            os.execve(command[0], list(command), {**environment, "TERM": "xterm-256color"})
        fcntl.ioctl(self._descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", *ROWS_COLUMNS, 0, 0))
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def press(self, keys: str) -> None:
        os.write(self._descriptor, keys.encode())

    def pressing(self, keys: str, every_s: float) -> Callable[[], None]:
        """Return a function to call in a wait's condition: it presses the keys, and repeats them after `every_s` seconds.

        Claude Code drops what is pressed in the first moments of a prompt; a person then presses once more.
        """
        next_s = 0.0

        def press() -> None:
            nonlocal next_s
            if time.monotonic() >= next_s:
                self.press(keys)
                next_s = time.monotonic() + every_s

        return press

    def wait_for(self, text: str, what: str) -> None:
        """Wait until the program has shown a text."""
        wanted = "".join(text.split())
        wait_until(lambda: wanted in self.shown(), what, LONG_S)

    def shown(self) -> str:
        """Return all output so far."""
        return "".join(_CONTROL.sub(b"", self._shown).decode(errors="replace").split())

    def close(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        self._reader.join(LONG_S)
        os.close(self._descriptor)

    def _read(self) -> None:
        with suppress(OSError):  # a terminal whose program has ended
            while piece := os.read(self._descriptor, 65536):
                self._shown += piece
