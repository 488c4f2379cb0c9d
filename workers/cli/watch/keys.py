"""Keys typed at a terminal, without waiting for Enter."""

from __future__ import annotations

import asyncio
import codecs
import os
import re
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_NAMED: Final = {
    "\x1b[A": "up", "\x1b[B": "down", "\x1b[C": "right", "\x1b[D": "left", "\x1bOA": "up", "\x1bOB": "down",
    "\x1b[5~": "page up", "\x1b[6~": "page down", "\r": "enter", "\n": "enter", "\x7f": "backspace", "\x08": "backspace",
    "\x1b": "escape",
}  # fmt: skip
_KEY: Final = re.compile(r"\x1b\[[0-9;]*[A-Za-z~]|\x1bO[A-Z]|.", re.DOTALL)
READ_BYTES: Final = 4096


def keys_of(text: str) -> list[str]:
    """Return the keys in what a terminal sent: names of special keys and single characters, no unknown sequences."""
    found = (_NAMED.get(one, one) for one in _KEY.findall(text))
    return [one for one in found if not one.startswith("\x1b")]


@contextmanager
def typed_keys() -> Iterator[asyncio.Queue[str]]:
    """Queue the keys typed at standard input for the block; the terminal is as before afterwards."""
    queue: asyncio.Queue[str] = asyncio.Queue()
    descriptor = sys.stdin.fileno()
    decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def read() -> None:
        for key in keys_of(decoder.decode(os.read(descriptor, READ_BYTES))):
            queue.put_nowait(key)

    before = termios.tcgetattr(descriptor)
    loop = asyncio.get_running_loop()
    try:
        tty.setcbreak(descriptor)
        loop.add_reader(descriptor, read)
        yield queue
    finally:
        loop.remove_reader(descriptor)
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
