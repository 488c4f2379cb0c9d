"""The operands of a call on this machine's disk: which of the wanted files are there, and the SHA-256 of each.

A file may change between this look and the run: the hash proves what lay there, not what will run. Whoever needs more
than that runs from a folder that nobody else can write. `workers.transport.operand_files` does the same for hooks and
bridges, which do not import the ledger; one test suite holds both.
"""

from __future__ import annotations

import asyncio
import fnmatch
import os
import stat
from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import Final

from ledger.core.limits import OPERAND_COUNT, OPERAND_FILE_BYTES, OPERAND_PATH_BYTES, OPERANDS_BYTES
from ledger.core.operands import Operand, WantedOperand
from ledger.core.policy import Call
from ledger.core.regular_files import open_regular
from ledger.policy.operands import operands_wanted

ENTRIES_COUNT: Final = 10_000
"""Entries of a folder that are compared with a pattern of names."""

_PIECE_BYTES: Final = 1024 * 1024


async def operands_here(call: Call, home: str | None) -> tuple[Operand, ...] | None:
    """Return the operands of a call that runs on this machine; None for a call that can have none.

    The loop is not blocked while files are read.
    """
    return await look_here(operands_wanted(call, home))


async def look_here(wanted: tuple[WantedOperand, ...]) -> tuple[Operand, ...] | None:
    """Return wanted files as they are now on this machine; None if nothing is wanted."""
    return await asyncio.to_thread(found_operands, wanted) if wanted else None


def found_operands(wanted: Iterable[WantedOperand]) -> tuple[Operand, ...]:
    """Return the wanted files as they are now, without repeats and in order; at most `OPERAND_COUNT`. Never raises."""
    found: dict[str, Operand] = {}
    left = OPERANDS_BYTES
    for one in wanted:
        for path in _matching(one) if one.is_glob else _first(one):
            if path in found:
                continue
            if len(found) == OPERAND_COUNT:
                return tuple(found.values())
            found[path] = operand = _looked_at(path, left)
            left -= (operand.size_bytes or 0) if operand.found == "file" else 0
    return tuple(found.values())


def _first(wanted: WantedOperand) -> Iterator[str]:
    """Yield the first path that is there and no folder; if there is none, a file that is not optional is missing."""
    is_folder = False
    for path in wanted.paths:
        try:
            if stat.S_ISDIR(os.stat(path).st_mode):  # noqa: PTH116 - as fast as can be
                is_folder = True
                continue
        except (FileNotFoundError, NotADirectoryError, ValueError):
            continue
        except OSError:  # in a folder that this user may not enter, or a circle of links
            if wanted.is_optional:
                continue
        yield path
        return
    if not is_folder and not wanted.is_optional:
        yield wanted.paths[0]


def _matching(wanted: WantedOperand) -> Iterator[str]:
    """Yield the regular files whose names match the pattern, sorted by name, as a shell would."""
    for path in wanted.paths:
        folder, _, pattern = path.rpartition("/")
        try:
            with os.scandir(folder or "/") as entries:
                names = [entry.name for entry, _ in zip(entries, range(ENTRIES_COUNT), strict=False)]
        except (OSError, ValueError):
            continue
        for name in sorted(fnmatch.filter(names, pattern)):
            place = f"{folder}/{name}"
            if (pattern.startswith(".") or not name.startswith(".")) and os.path.isfile(place):  # noqa: PTH113
                yield place


def _looked_at(path: str, bytes_max: int) -> Operand:
    """Return the operand at a path, with its SHA-256 if it has at most `bytes_max` bytes and the limit of one file."""
    real = _real(path)
    shown = None if real == path else _written(real)
    digest, size = sha256(), 0
    limit = min(bytes_max, OPERAND_FILE_BYTES)
    try:
        with open_regular(real) as file:
            length = os.fstat(file.fileno()).st_size
            while length <= limit and size <= limit and (piece := file.read(_PIECE_BYTES)):
                digest.update(piece)
                size += len(piece)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return Operand(path, found="missing")
    except OSError:
        return Operand(path, found="unreadable", real=shown)
    if max(length, size) > limit:
        return Operand(path, found="too large", real=shown, size_bytes=max(length, size))
    return Operand(path, digest.hexdigest(), real=shown, size_bytes=size)


def _written(real: str) -> str | None:
    """Return a path as text; None for one that is too long, which no call can open."""
    try:
        text = os.fsencode(real).decode("utf-8", "backslashreplace")
    except ValueError:  # half a character of a line, which no file has in its name
        return None
    return text if len(text.encode()) <= OPERAND_PATH_BYTES else None


def _real(path: str) -> str:
    try:
        return os.path.realpath(path)
    except (OSError, ValueError):
        return path
