"""Facts about files as values: link targets and file kinds. Pure; `ledger.client.machine` reads the disk."""

from __future__ import annotations

import posixpath
from enum import StrEnum
from typing import Protocol


class FileKind(StrEnum):
    """The kind of file at a path, links followed."""

    FILE = "file"
    DIRECTORY = "dir"


class FileFacts(Protocol):
    """The facts about files that a policy may use. Paths are absolute, with `/`."""

    def resolve(self, path: str) -> str:
        """Return the path with every link followed; missing files stay as written. `..` is removed lexically."""
        ...

    def kind(self, path: str) -> FileKind | None:
        """Return the kind of file at the path, links followed; None if no file is known there."""
        ...


class NoFacts:
    """No facts: every path leads to itself, and nothing is known of any file.

    `own_folders` are the ledger's data folders, by their real paths.
    """

    def __init__(self, own_folders: tuple[str, ...] = ()) -> None:
        self.own_folders = own_folders

    def resolve(self, path: str) -> str:
        return posixpath.normpath(path)

    def kind(self, path: str) -> FileKind | None:
        return None
