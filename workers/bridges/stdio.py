"""Lines between a host, ourselves and a client process: read as they come, written whole, unchanged."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import IO, Final

LINE_BYTES_MAX: Final = 64 * 1024 * 1024

_READ_BYTES: Final = 64 * 1024

_host: Final = threading.Lock()


class LongLineError(Exception):
    """A line over the size limit; no part of it is passed on."""


class ClientProcess:
    """The agent's program, whose stdin and stdout are ours; its stderr is the host's."""

    def __init__(self, command: Sequence[str]) -> None:
        """Raise OSError when the program cannot be started."""
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # noqa: S603
        self._writing = threading.Lock()

    def lines(self) -> Iterator[bytes]:
        assert self._process.stdout
        return lines_of(self._process.stdout)

    def write(self, line: bytes) -> None:
        """Write a line; do nothing if the client has ended."""
        assert self._process.stdin
        with self._writing, suppress(BrokenPipeError, ValueError):
            self._process.stdin.write(line)
            self._process.stdin.flush()

    def write_at_once(self, line: bytes) -> bool:
        """Write a line if that cannot block; return whether it was written, whole or not at all."""
        assert self._process.stdin
        if len(line) > select.PIPE_BUF or not self._writing.acquire(blocking=False):
            return False
        try:
            # A pipe that is writable takes this much at once. After `flush` no data of ours is queued before it.
            ready = select.select((), (self._process.stdin,), (), 0)[1]
            if ready:
                os.write(self._process.stdin.fileno(), line)
            return bool(ready)
        except (BrokenPipeError, ValueError):
            return True
        finally:
            self._writing.release()

    def close_stdin(self) -> None:
        assert self._process.stdin
        with self._writing, suppress(BrokenPipeError, ValueError):
            self._process.stdin.close()

    def close_stdout(self) -> None:
        """Close the client's stdout: its next write fails."""
        assert self._process.stdout
        self._process.stdout.close()

    def wait(self) -> int:
        """Return the exit code as in shells: 128 plus the number of a signal that ended it."""
        code = self._process.wait()
        return code if code >= 0 else 128 - code

    def send(self, number: signal.Signals) -> None:
        # On a terminal Ctrl-C reaches the client directly, as it reaches us.
        if number is not signal.SIGINT or not sys.stdin.isatty():
            self._process.send_signal(number)


def lines_of(source: IO[bytes]) -> Iterator[bytes]:
    """Yield lines with their ends; the last one may have none. Raises LongLineError."""
    while line := source.readline(LINE_BYTES_MAX + 1):
        if len(line) > LINE_BYTES_MAX:
            raise LongLineError(f"a line takes more than {LINE_BYTES_MAX} bytes")
        yield line


def host_lines() -> Iterator[bytes]:
    """As `lines_of`, from our stdin. Raises LongLineError.

    Unbuffered: a thread that still reads `sys.stdin` at exit makes the interpreter abort.
    """
    pieces: list[bytes] = []
    while piece := os.read(0, _READ_BYTES):
        *ends, rest = piece.split(b"\n")
        for end in ends:
            yield b"".join((*pieces, end, b"\n"))
            pieces.clear()
        pieces += [rest] if rest else []
        if len(pieces) > LINE_BYTES_MAX // _READ_BYTES and sum(map(len, pieces)) > LINE_BYTES_MAX:
            raise LongLineError(f"a line takes more than {LINE_BYTES_MAX} bytes")
    if pieces:
        yield b"".join(pieces)


def write_to_host(line: bytes) -> None:
    """Write all of it, at once. Raises BrokenPipeError when the host reads no more."""
    with _host:
        left = memoryview(line)
        while left:
            left = left[os.write(1, left) :]


def tell(text: str) -> None:
    """Write a line for the person to stderr."""
    sys.stderr.write(f"permission-ledger: {text}\n")
    sys.stderr.flush()
