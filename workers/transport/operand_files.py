"""The files that the gateway wants hashed for a call, as they lie on this machine. The standard library alone.

The ledger's own look (`ledger.client.operand_files`) would import the ledger. One test suite holds both to the same
answers.
"""

from __future__ import annotations

import os

from workers.transport.small_files import open_regular

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

OPERAND_COUNT = 32
OPERAND_PATH_BYTES = 4096
OPERAND_FILE_BYTES = 32 * 1024 * 1024
OPERANDS_BYTES = 128 * 1024 * 1024
ENTRIES_COUNT = 10_000
_PIECE_BYTES = 1024 * 1024
_KIND = 0o170000
_FOLDER = 0o040000


def hashed(wanted: object) -> list[dict[str, Any]]:
    """Return the operands for the gateway's list of wanted files, in its order. Never raises; ignores what it cannot read."""
    found: dict[str, dict[str, Any]] = {}
    left = OPERANDS_BYTES
    for one in wanted if isinstance(wanted, list) else ():
        if not isinstance(one, dict) or not isinstance(one.get("paths"), list):
            continue
        paths = [path for path in one["paths"] if isinstance(path, str) and path.startswith("/")]
        for path in _matching(paths) if one.get("is_glob") else _first(paths, bool(one.get("is_optional"))):
            if path in found:
                continue
            if len(found) == OPERAND_COUNT:
                return list(found.values())
            found[path] = operand = _looked_at(path, left)
            if operand.get("sha256"):
                left -= operand["size_bytes"]
    return list(found.values())


def are_unchanged(row: dict[str, Any]) -> bool:
    """Return whether the files of a request's row lie on this machine as they did when it was asked. Never raises."""
    operands = (row.get("request") or {}).get("operands") or []
    now = hashed([{"paths": [one["path"]]} for one in operands])
    return [_identity(one) for one in now] == [_identity(one) for one in operands]


def _identity(operand: dict[str, Any]) -> tuple[object, ...]:
    names = ("path", "sha256", "real", "size_bytes")
    return (operand.get("found") or "file", *(operand.get(name) for name in names))


def _first(paths: list[str], is_optional: bool) -> Iterator[str]:
    is_folder = False
    for path in paths:
        try:
            if os.stat(path).st_mode & _KIND == _FOLDER:  # noqa: PTH116 - pathlib is slow
                is_folder = True
                continue
        except (FileNotFoundError, NotADirectoryError, ValueError):
            continue
        except OSError:
            if is_optional:
                continue
        yield path
        return
    if paths and not is_folder and not is_optional:
        yield paths[0]


def _matching(paths: list[str]) -> Iterator[str]:
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


def _looked_at(path: str, bytes_max: int) -> dict[str, Any]:
    import hashlib  # noqa: PLC0415 - slow to import, and most calls have no such file

    real = _real(path)
    leads = {} if real == path else _written(real)
    digest, size, limit = hashlib.sha256(), 0, min(bytes_max, OPERAND_FILE_BYTES)
    try:
        descriptor = open_regular(real)
        try:
            length = os.fstat(descriptor).st_size
            while length <= limit and size <= limit and (piece := os.read(descriptor, _PIECE_BYTES)):
                digest.update(piece)
                size += len(piece)
        finally:
            os.close(descriptor)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return {"path": path, "found": "missing"}
    except OSError:
        return {"path": path, "found": "unreadable", **leads}
    if max(length, size) > limit:
        return {"path": path, "found": "too large", "size_bytes": max(length, size), **leads}
    return {"path": path, "sha256": digest.hexdigest(), "size_bytes": size, **leads}


def _written(real: str) -> dict[str, Any]:
    try:
        text = os.fsencode(real).decode("utf-8", "backslashreplace")
    except ValueError:
        return {}
    return {"real": text} if len(text.encode()) <= OPERAND_PATH_BYTES else {}


def _real(path: str) -> str:
    try:
        return os.path.realpath(path)
    except (OSError, ValueError):
        return path
