"""Facts from the file system of this machine, for whoever judges a call where its files are. Looks, never changes."""

from __future__ import annotations

import posixpath
from pathlib import Path
from stat import S_ISDIR

from ledger.policy.facts import Kind


class DiskFacts:
    """What the disk says at the moment of the question; what cannot be looked at stays as written.

    `own_folders` are the ledger's data folders, by their real paths.
    """

    def __init__(self, own_folders: tuple[str, ...] = ()) -> None:
        self.own_folders = own_folders

    def resolve(self, path: str) -> str:
        try:
            return str(Path(path).resolve())
        except (OSError, RuntimeError, ValueError):  # no right to look, a loop of links, a NUL
            return posixpath.normpath(path)

    def kind(self, path: str) -> Kind | None:
        try:
            return Kind.DIRECTORY if S_ISDIR(Path(path).stat().st_mode) else Kind.FILE
        except (OSError, ValueError):
            return None
