"""The operands of a call on this machine's disk: which of the wanted files are there, and the SHA-256 of each.

A file may change between this look and the run: the hash proves what lay there, not what will run. Whoever needs more
than that runs from a folder that nobody else can write. For the ledger, bridges and hooks; a hook starts with every
call, so this imports little.
"""

from __future__ import annotations

import os
import stat

from ledger.core.limits import OPERAND_COUNT, OPERAND_FILE_BYTES, OPERAND_PATH_BYTES, OPERANDS_BYTES
from ledger.core.regular_files import open_regular

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any

    from ledger.core.regular_files import MayOpen

ENTRIES_COUNT = 10_000
"""Entries of a folder that are compared with a pattern of names."""

_PIECE_BYTES = 1024 * 1024


def operand_rows(
    wanted: Iterable[tuple[Sequence[str], bool, bool]], may_open: MayOpen | None = None
) -> list[dict[str, Any]]:
    """Return the wanted files as they are now, without repeats and in order; at most `OPERAND_COUNT`. Never raises.

    Each of `wanted` has the `paths`, `is_optional` and `is_glob` of a WantedOperand; each row the members of an Operand.
    A file that `may_open` refuses is unreadable.
    """
    found: dict[str, dict[str, Any]] = {}
    left = OPERANDS_BYTES
    for paths, is_optional, is_glob in wanted:
        for path in _matching(paths) if is_glob else _first(paths, is_optional):
            if path in found:
                continue
            if len(found) == OPERAND_COUNT:
                return list(found.values())
            found[path] = row = _looked_at(path, left, may_open)
            if "sha256" in row:
                left -= row["size_bytes"]
    return list(found.values())


def _first(paths: Sequence[str], is_optional: bool) -> Iterator[str]:
    """Yield the first path that is there and no folder; if there is none, a file that is not optional is missing."""
    is_folder = False
    for path in paths:
        try:
            if stat.S_ISDIR(os.stat(path).st_mode):  # noqa: PTH116 - as fast as can be
                is_folder = True
                continue
        except (FileNotFoundError, NotADirectoryError, ValueError):
            continue
        except OSError:  # in a folder that this user may not enter, or a circle of links
            if is_optional:
                continue
        yield path
        return
    if paths and not is_folder and not is_optional:
        yield paths[0]


def _matching(paths: Sequence[str]) -> Iterator[str]:
    """Yield the regular files whose names match the pattern, sorted by name, as a shell would."""
    import fnmatch  # noqa: PLC0415 - rarely needed

    for path in paths:
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


def _looked_at(path: str, bytes_max: int, may_open: MayOpen | None) -> dict[str, Any]:
    """Return the row of a path, with its SHA-256 if it has at most `bytes_max` bytes and the limit of one file."""
    import hashlib  # noqa: PLC0415 - slow to import, and most calls have no such file

    real = _real(path)
    leads = {} if real == path else _written(real)
    digest, size, limit = hashlib.sha256(), 0, min(bytes_max, OPERAND_FILE_BYTES)
    try:
        with open_regular(real, may_open) as file:
            length = os.fstat(file.fileno()).st_size
            while length <= limit and size <= limit and (piece := file.read(_PIECE_BYTES)):
                digest.update(piece)
                size += len(piece)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return {"path": path, "found": "missing"}
    except OSError:
        return {"path": path, "found": "unreadable", **leads}
    if max(length, size) > limit:
        return {"path": path, "found": "too large", "size_bytes": max(length, size), **leads}
    return {"path": path, "sha256": digest.hexdigest(), "size_bytes": size, **leads}


def _written(real: str) -> dict[str, str]:
    """Return a path as text; nothing for one that is too long, which no call can open."""
    try:
        text = os.fsencode(real).decode("utf-8", "backslashreplace")
    except ValueError:  # half a character of a line, which no file has in its name
        return {}
    return {"real": text} if len(text.encode()) <= OPERAND_PATH_BYTES else {}


def _real(path: str) -> str:
    try:
        return os.path.realpath(path)
    except (OSError, ValueError):
        return path
