"""The files that a patch in the `*** Begin Patch` format names. Its hunks are not parsed."""

from __future__ import annotations

from typing import Final

import msgspec

from ledger.core.late_patterns import late_pattern

_BEGIN: Final = "*** Begin Patch"
_END: Final = "*** End Patch"
_FILE: Final = late_pattern(r"\*\*\* (?:Add|Delete|(?P<update>Update)) File:(?P<path>.*)")
_MOVE: Final = "*** Move to:"


class PatchedFile(msgspec.Struct, frozen=True, omit_defaults=True):
    """A file that a patch adds, changes or deletes, and the target if it is moved; both as written."""

    path: str
    moved_to: str | None = None


def patched_files(text: str) -> tuple[PatchedFile, ...]:
    """Return the files of a patch in order; none if it has no beginning or no end.

    A header counts anywhere between the two: an extra one causes an unnecessary question, a missed one would leave a
    file unchecked.
    """
    lines = text.split("\n")
    stripped = [line.strip() for line in lines]
    if _BEGIN not in stripped or _END not in stripped:
        return ()
    found: list[PatchedFile] = []
    start, end = stripped.index(_BEGIN), len(stripped) - 1 - stripped[::-1].index(_END)
    for index in range(start + 1, end):
        header = _FILE.match(lines[index])
        if header is None or not (path := header["path"].strip()):
            continue
        after = lines[index + 1] if header["update"] else ""
        found.append(PatchedFile(path, after.removeprefix(_MOVE).strip() or None if after.startswith(_MOVE) else None))
    return tuple(found)
