"""Pieces of work for processes of a pool, which import this module."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from pathlib import Path
from typing import Any

from ledger import Ledger


def nothing() -> None:
    """Begin a process without anything."""


def pid() -> int:
    return os.getpid()


def same(value: Any) -> Any:
    return value


def refused(text: str) -> None:
    raise ValueError(text)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def endless(begun: str) -> None:
    """Write the process's id to a file, and work until killed."""
    Path(begun).write_text(str(os.getpid()))
    while True:
        signal.pause()


class Waits:
    """Work on a ledger that tells its process's id, and never ends. Takes the arguments of every work."""

    def __init__(self, *_: Any) -> None:
        self.depth = "chain"

    async def done_by(self, _: Ledger, __: Any) -> None:
        os.write(1, f"{os.getpid()}\n".encode())
        await asyncio.Event().wait()


class Dies:
    """Work on a ledger whose process is killed."""

    async def done_by(self, _: Ledger, __: Any) -> None:
        die()


class Warns:
    """Work on a ledger of which something is logged."""

    async def done_by(self, _: Ledger, portion: Any) -> Any:
        logging.getLogger(__name__).warning("portion %s", portion)
        return portion
