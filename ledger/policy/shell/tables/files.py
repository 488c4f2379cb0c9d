"""Programs that work on the files that they name, and files that affect later commands, read from `files.toml`."""

from __future__ import annotations

import posixpath
from fnmatch import fnmatchcase
from typing import Final

import msgspec

from ledger.policy.data_files import WordSet, read_file
from ledger.policy.shell.model import Access


class _Files(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    read: WordSet
    edit: WordSet
    read_edit: WordSet
    protected_folders: WordSet
    protected_files: WordSet
    product_folders: WordSet


_FILES: Final = read_file(_Files, "policy/shell/tables/files.toml")

PROGRAMS: Final[dict[str, tuple[Access, ...]]] = {
    **dict.fromkeys(_FILES.read, (Access.READ,)),
    **dict.fromkeys(_FILES.edit, (Access.EDIT,)),
    **dict.fromkeys(_FILES.read_edit, (Access.READ, Access.EDIT)),
}
"""Possible accesses of each program to the files among its words; broad, for deny and ask rules only."""


_NAMES: Final = frozenset(one for one in _FILES.protected_files if "*" not in one)
_GLOBS: Final = tuple(one for one in _FILES.protected_files if "*" in one)
_FOLDERS: Final = frozenset(tuple(one.split("/")) for one in _FILES.protected_folders)
_DEPTHS: Final = sorted({len(one) for one in _FOLDERS})


def is_protected(path: str, place: str = ".", start: str = ".") -> bool:
    """Return whether a path affects what later commands do, by its name or a folder's; case is ignored.

    `place` is the folder where it is written, `start` the one where the line began: the folders above that do not count.
    """
    if place != start:
        path = posixpath.relpath(posixpath.join(place, path), start)
    names = posixpath.normpath(path).casefold().split("/")
    if names[-1] in _NAMES or any(fnmatchcase(names[-1], one) for one in _GLOBS):
        return True
    return any(tuple(names[at : at + depth]) in _FOLDERS for depth in _DEPTHS for at in range(len(names)))


def is_product(path: str) -> bool:
    """Return whether a path is a folder of what programs make, or is in one."""
    return not _FILES.product_folders.isdisjoint(posixpath.normpath(path).casefold().split("/"))
