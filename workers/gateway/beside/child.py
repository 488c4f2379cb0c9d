"""A process that does pure work for a gateway: one piece after the other, from stdin to stdout, each with a budget.

A piece that takes more processor time than its budget ends the process: the signal's default action stops C code too.
When the gateway ends, stdin is closed, and the process ends.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
from contextlib import suppress
from time import process_time
from typing import IO, Any, Final

import msgspec

from ledger.core.errors import LedgerError
from workers.gateway.beside.work import WORK
from workers.runtime.frames import HEAD_BYTES, framed, length_of

NICE: Final = 4
"""Lower priority than the gateway, which serves people."""

MEMORY_BYTES_MAX: Final = 2 * 1024 * 1024 * 1024
ANSWER_BYTES_MAX: Final = 16 * 1024 * 1024


class WorkPiece(msgspec.Struct):
    """A piece of work; `seconds` is its budget of processor time."""

    name: str
    argument: Any
    seconds: float


def main() -> None:
    """Work until stdin ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the gateway's terminal signals the gateway alone
    os.nice(NICE)
    with suppress(ValueError, OSError):  # not every system has this limit
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX))
    while head := sys.stdin.buffer.read(HEAD_BYTES):
        piece = msgspec.json.decode(sys.stdin.buffer.read(length_of(head)), type=WorkPiece)
        _write(sys.stdout.buffer, _done(piece))


def _done(piece: WorkPiece) -> bytes:
    began = process_time()
    signal.setitimer(signal.ITIMER_PROF, piece.seconds)
    try:
        answer = msgspec.json.encode({"value": WORK[piece.name](piece.argument), "seconds": process_time() - began})
    except LedgerError as error:
        answer = msgspec.json.encode({"code": error.code, "text": error.text, "seconds": process_time() - began})
    except (MemoryError, RecursionError):
        answer = b"{}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return answer if len(answer) <= ANSWER_BYTES_MAX else b"{}"


def _write(stdout: IO[bytes], answer: bytes) -> None:
    try:
        stdout.write(framed(answer))
        stdout.flush()
    except BrokenPipeError:  # the gateway has ended
        os._exit(0)  # skips the flush at exit, which would fail too


if __name__ == "__main__":
    main()
