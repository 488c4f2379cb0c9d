"""The files that the ledger depends on: its data folder, and the settings that contain its hooks and bridges. Pure."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Sequence
from enum import IntEnum
from itertools import pairwise
from typing import Final

from ledger.policy.matching.wildcard import name_glob

PROGRAM: Final = "permission-ledger"
DATA: Final = "the ledger's data folder"
HOOKS: Final = "a file in which hooks, bridges or settings of the ledger stand"

_DEFAULT_FOLDER: Final = (".local", "share", PROGRAM)
_OTHER_FOLDER: Final = ("share", PROGRAM)
_SOCKET_FOLDER: Final = (f"{PROGRAM}-*",)
"""A folder directly in that of temporary files, for a socket whose path would be too long in the data folder."""

_DATA_FILES: Final = frozenset(
    {"gateway.json", "gateway-token", "gateway.sock", "server.sock", "brought-rules", "installed", "askers"}
)
_HOOK_FILES: Final = (
    (".claude", "settings.json"),
    (".claude", "settings.local.json"),
    (".claude", "hooks"),
    (".claude.json",),
    (".mcp.json",),
    ("opencode.json",),
    ("opencode.jsonc",),
    (".opencode", "plugin"),
    (".opencode", "plugins"),
    (".codex", "hooks.json"),
    (".codex", "config.toml"),
    (".gemini", "settings.json"),
    (".qwen", "settings.json"),
    (".codelia", "config.json"),
    (".copilot", "config.json"),
    (".copilot", "mcp-config.json"),
    (".kimi", "config.toml"),
    ("zed", "settings.json"),
    (f"{PROGRAM}.toml",),
    (f"{PROGRAM}.*.json",),
    (".config", PROGRAM),
    (PROGRAM, "config.toml"),
    (PROGRAM, "trusted.json"),
)
_HOOK_FOLDERS: Final = frozenset(names[0] for names in _HOOK_FILES if len(names) > 1) - {"zed", ".config", PROGRAM}
_GLOB: Final = frozenset("*?[")


class Hit(IntEnum):
    """A degree of certainty that a path is one of the ledger's, in rising order."""

    NONE = 0
    STAR = 1  # a name that is `*` alone may stand for it, as for everything in a folder
    MAYBE = 2  # a glob may stand for it, among others
    NAMED = 3  # it is named


class OwnPaths:
    """Matches paths against the ledger's files. `folders` are data folders by their real, absolute paths."""

    def __init__(self, folders: Iterable[str] = ()) -> None:
        self._folders = tuple(_names(one) for one in folders)

    @property
    def words(self) -> frozenset[str]:
        """Return the names, in lower case, one of which every text about these files contains."""
        names = {name for one in (_OTHER_FOLDER, _SOCKET_FOLDER, *_HOOK_FILES) for name in one} | _DATA_FILES
        names |= {name for folder in self._folders for name in folder}
        return frozenset(name.strip("*").casefold() for name in names)

    def data(self, path: str, folder: str) -> Hit:
        """Return how surely a path is a data folder, or is inside one: `NAMED`, `MAYBE` or `NONE`.

        `folder` is where the call runs. A glob for names in it is about the project, unless it names the ledger's.
        """
        names = _names(path)
        if any(_begins(names, one) for one in self._folders if path.startswith("/")):
            return Hit.NAMED
        if _run(names, _DEFAULT_FOLDER) >= Hit.MAYBE:
            return Hit.NAMED
        is_inside = _is_inside(path, folder)
        found, socket = _run(names, _OTHER_FOLDER), _run(names, _SOCKET_FOLDER)
        if socket is Hit.NAMED or not is_inside:
            found = max(found, socket)
        # A relative path, for example from `~/.local/share`: the folder by its name alone, with one of its files.
        for a, b in pairwise(names):
            above, file = max(_hit(a, PROGRAM), _hit(a, f"{PROGRAM}-*")), max(_hit(b, one) for one in _DATA_FILES)
            least = Hit.MAYBE if is_inside or file is not Hit.NAMED else Hit.STAR
            if above >= least and file >= Hit.MAYBE and (Hit.NAMED in (above, file) or not is_inside):
                found = max(found, Hit.NAMED if Hit.NAMED in (above, file) else Hit.MAYBE)
        return found if found >= Hit.MAYBE else Hit.NONE

    def holds_data(self, path: str) -> bool:
        """Return whether a folder contains a data folder."""
        names = _names(path)
        if names[:1] == ("~",):
            return _DEFAULT_FOLDER[: len(names) - 1] == names[1:]
        return path.startswith("/") and any(_begins(folder, names) for folder in self._folders)

    @staticmethod
    def hooks(path: str) -> Hit:
        """Return how surely a path is a hooks file, or is inside one."""
        names = _names(path)
        return max(_run(names, one) for one in _HOOK_FILES)

    @staticmethod
    def holds_hooks(path: str) -> Hit:
        """Return how surely a path is a folder that contains hooks files."""
        names = _names(path)
        return max(_run(names[-1:], (one,)) for one in _HOOK_FOLDERS)


def joined(folder: str, path: str) -> str:
    """Return the path relative to a folder; a path that begins with `~` or a variable is unchanged."""
    return path if path.startswith(("/", "~", "$")) else posixpath.join(folder, path)


def _names(path: str) -> tuple[str, ...]:
    return tuple(one for one in posixpath.normpath(path.replace("\0", "")).split("/") if one not in ("", "."))


def _is_inside(path: str, folder: str) -> bool:
    names, around = _names(path), _names(folder)
    if path.startswith("/"):
        return folder.startswith("/") and around != () and names[: len(around)] == around
    return not path.startswith(("~", "$")) and names[:1] != ("..",)


def _hit(name: str, wanted: str) -> Hit:
    """Compare two names as a case-insensitive file system does; `name` may be a glob, and `wanted` hold a `*`."""
    one, other = name.casefold(), wanted.casefold()
    if one == other or ("*" in other and name_glob(other)(one)):
        return Hit.NAMED
    if _GLOB.isdisjoint(one):
        return Hit.NONE
    if one.strip("*?") == "":
        return Hit.NONE if other.startswith(".") else Hit.STAR
    return Hit.MAYBE if name_glob(one)(other) else Hit.NONE


def _begins(names: Sequence[str], folder: Sequence[str]) -> bool:
    return len(names) >= len(folder) and all(_hit(*both) >= Hit.MAYBE for both in zip(names, folder, strict=False))


def _run(names: Sequence[str], wanted: Sequence[str]) -> Hit:
    """Return the hit of the best run of names; `STAR` if one of them is `*` alone, `NONE` if all are."""
    count, best = len(wanted), Hit.NONE
    for at in range(len(names) - count + 1):
        hits = [_hit(*both) for both in zip(names[at : at + count], wanted, strict=True)]
        best = max(best, min(hits) if max(hits) > Hit.STAR else Hit.NONE)
    return best
