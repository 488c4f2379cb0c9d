"""Facts about files as values: link targets and file kinds. Pure; `ledger.client.machine` reads the disk."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final, Protocol

from ledger.policy.checks import shown
from ledger.policy.errors import PolicyError

_LINKS_MAX: Final = 40
_LINK: Final = "-> "


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
    """No facts: every path resolves to itself."""

    def resolve(self, path: str) -> str:
        return posixpath.normpath(path)

    def kind(self, path: str) -> FileKind | None:
        return None


class MappedFacts:
    """Facts that a caller wrote: `{"path": "file" | "dir" | "-> target"}`, paths relative to `base`.

    Raises PolicyError for any other value.
    """

    def __init__(self, entries: Mapping[str, Any], base: str) -> None:
        self._kinds: dict[str, FileKind] = {}
        self._links: dict[str, str] = {}
        for path, what in entries.items():
            place = posixpath.normpath(posixpath.join(base, path))
            if isinstance(what, str) and what.startswith(_LINK):
                self._links[place] = posixpath.join(posixpath.dirname(place), what.removeprefix(_LINK))
            elif what in FileKind.__members__.values():
                self._kinds[place] = FileKind(what)
            else:
                text = f"the fact about {shown(path)} must be `file`, `dir` or `-> target`, not {shown(what)}"
                raise PolicyError(text, key="fs")

    def resolve(self, path: str) -> str:
        done, todo, links = "/", list(reversed(path.split("/"))), 0
        while todo:
            name = todo.pop()
            if name in ("", "."):
                continue
            if name == "..":
                done = posixpath.dirname(done)
                continue
            done = posixpath.join(done, name)
            target = self._links.get(done)
            if target is not None and links < _LINKS_MAX:
                links += 1
                todo += reversed(target.split("/"))
                done = "/"
        return done

    def kind(self, path: str) -> FileKind | None:
        place = self.resolve(path)
        if place in self._kinds:
            return self._kinds[place]
        inside = place.rstrip("/") + "/"
        if any(other.startswith(inside) for other in (*self._kinds, *self._links)):
            return FileKind.DIRECTORY
        return None
