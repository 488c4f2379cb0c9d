"""Operands: the files that a call executes or reads as a program, and the comparison of two states of them. Pure.

The policy says which paths a call wants (`WantedOperand`); the machine of the files finds them (`Operand`).
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator
from typing import Any, Final, Literal

import msgspec

from ledger.core.errors import InputError
from ledger.core.late_patterns import late_pattern
from ledger.core.limits import OPERAND_COUNT, OPERAND_PATH_BYTES

FileState = Literal["file", "missing", "unreadable", "too large"]
"""The result of a look at a path. `too large`: over the limit of bytes, so it has no SHA-256, only its size."""

SHOWN_DIGITS: Final = 12
"""Digits of a SHA-256 that a line for a person shows; the request has all of them."""

_SHA256: Final = late_pattern(r"[0-9a-f]{64}")


class WantedOperand(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A file that a call wants: of `paths` (absolute, in this order) the first one that is a file.

    `is_optional`: if none is there, it is no operand; otherwise it is one that is missing. `is_glob`: the last part of
    each path is a pattern of file names, and every file that matches is an operand.
    """

    paths: tuple[str, ...]
    is_optional: bool = False
    is_glob: bool = False


class Operand(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A file that a call executes or reads as a program, as it was found on the machine of the files.

    `path` is absolute, as the call names it. `real` is the path with every link followed, where it differs. `sha256`
    (lower-case hex) and `size_bytes` are those of the content; `sha256` is None unless `found` is `file`.
    """

    path: str
    sha256: str | None = None
    found: FileState = "file"
    real: str | None = None
    size_bytes: int | None = None


def check_operands(values: Any) -> tuple[Operand, ...]:
    """Return operands from outside, checked and within the bounds. Raises InputError."""
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise InputError(f"operands are a list of files, not {type(values).__name__}")
    given = tuple(values)
    if len(given) > OPERAND_COUNT:
        raise InputError(f"{len(given)} operands are too many; at most {OPERAND_COUNT} are accepted")
    found = tuple(_read(one) for one in given)
    for one in found:
        _check(one)
    paths = [one.path for one in found]
    twice = next((path for at, path in enumerate(paths) if path in paths[:at]), None)
    if twice is not None:
        raise InputError(f"the operand {twice!a} is listed twice")
    return found


def _read(value: Any) -> Operand:
    if isinstance(value, Operand):
        return value
    try:
        return msgspec.convert(value, Operand)
    except msgspec.ValidationError as error:
        raise InputError(f"an operand is {{path, sha256, found, real, size_bytes}}: {error}") from error


def _check(operand: Operand) -> None:
    for path in (operand.path, operand.real):
        if path is None:
            continue
        if not path.startswith("/") or "\0" in path:
            raise InputError(f"the path {path!a} of an operand must be absolute")
        if len(path.encode("utf-8", "surrogatepass")) > OPERAND_PATH_BYTES:
            raise InputError(f"the path {path[:40]!a}… of an operand takes more than {OPERAND_PATH_BYTES} bytes")
        if any("\ud800" <= letter <= "\udfff" for letter in path):
            raise InputError(f"the path {path!a} of an operand is not valid Unicode")
    if operand.size_bytes is not None and operand.size_bytes < 0:
        raise InputError(f"the size of the operand {operand.path!a} is negative")
    if (operand.found == "file") != (operand.sha256 is not None):
        raise InputError(f"the operand {operand.path!a} needs its SHA-256 exactly if it was found as a file")
    if operand.sha256 is not None and not _SHA256.fullmatch(operand.sha256):
        raise InputError(f"the SHA-256 of the operand {operand.path!a} must be 64 lower-case hex characters")


def operand_change(
    approved: Iterable[Operand], now: Iterable[Operand], folder: str | None, *, is_edited: bool = False
) -> str | None:
    """Return the first difference between the operands of an approval and those of now, in words; None without one.

    `is_edited`: a person changed the call's input, which may name other files, so only files of both are compared.
    """
    before, after = {one.path: one for one in approved}, {one.path: one for one in now}
    return next(_differences(before, after, folder, is_edited=is_edited), None)


def _differences(
    before: dict[str, Operand], after: dict[str, Operand], folder: str | None, *, is_edited: bool
) -> Iterator[str]:
    for path, one in before.items():
        what = _difference(one, after[path]) if path in after else None
        if what is not None:
            yield f"{named_in(path, folder)} {what}"
    if is_edited:
        return
    for path, one in after.items():
        if path not in before and one.found != "missing":
            yield f"{named_in(path, folder)} did not exist when it was approved"
    for path, one in before.items():
        if path not in after and one.found != "missing":
            yield f"{named_in(path, folder)} was removed or replaced after it was approved"


def _difference(one: Operand, other: Operand) -> str | None:
    if one.found != other.found:
        if one.found == "missing":
            return "did not exist when it was approved"
        if other.found == "missing":
            return "was removed after it was approved"
        return "changed after it was approved" if other.found == "file" else f"is {other.found} since it was approved"
    if (one.sha256, one.size_bytes) != (other.sha256, other.size_bytes):
        return "changed after it was approved"
    if (one.real or one.path) != (other.real or other.path):
        return f"leads to {other.real or other.path} since it was approved"
    return None


def named_in(path: str, folder: str | None) -> str:
    """Return a path relative to a folder that contains it, else the path itself."""
    if folder is None:
        return path
    base = folder.rstrip("/") + "/"
    inside = path[len(base) :] if path.startswith(base) else ""
    return inside if inside and not inside.startswith("../") else path


def tidy(path: str) -> str:
    """Return an absolute path without `.` and empty parts; `..` stays, because a part before it may be a link."""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    return "/" + posixpath.join("", *parts) if parts else "/"


def operand_text(operand: Operand, folder: str | None) -> str:
    """Return an operand in one line for a person: its name in the folder, the file behind it, and what was found."""
    name = named_in(operand.path, folder)
    name = name if operand.real is None else f"{name} → {operand.real}"
    if operand.sha256 is not None:
        size = "" if operand.size_bytes is None else f", {operand.size_bytes} bytes"
        return f"{name} (SHA-256 {operand.sha256[:SHOWN_DIGITS]}…{size})"
    if operand.found == "too large":
        return f"{name} (too large to be hashed: a change of it is not noticed)"
    return f"{name} ({operand.found})"
