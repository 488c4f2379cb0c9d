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


async def waits(*_: Any) -> None:
    """Tell the process's id, and never end. Takes the arguments of every work."""
    os.write(1, f"{os.getpid()}\n".encode())
    await asyncio.Event().wait()


async def dies(_: Ledger, __: Any) -> None:
    die()


async def warns(_: Ledger, portion: Any) -> Any:
    logging.getLogger(__name__).warning("portion %s", portion)
    return portion
