"""Programs that work on the files that they name, and files that affect later commands, read from `files.toml`."""

from __future__ import annotations

from typing import Final

import msgspec

from ledger.policy.data_files import WordSet, read_file
from ledger.policy.shell.model import Access


class _Files(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The contents of the file."""

    read: WordSet
    edit: WordSet
    read_edit: WordSet
    protected_folders: WordSet
    protected_files: WordSet


_FILES: Final = read_file(_Files, "policy/shell/tables/files.toml")

PROGRAMS: Final[dict[str, tuple[Access, ...]]] = {
    **dict.fromkeys(_FILES.read, (Access.READ,)),
    **dict.fromkeys(_FILES.edit, (Access.EDIT,)),
    **dict.fromkeys(_FILES.read_edit, (Access.READ, Access.EDIT)),
}
"""Possible accesses of each program to the files among its words; broad, for deny and ask rules only."""


def is_protected(path: str) -> bool:
    """Return whether a path affects what later commands do, by its name or a folder's; case is ignored."""
    names = path.casefold().split("/")
    return names[-1] in _FILES.protected_files or not _FILES.protected_folders.isdisjoint(names)
