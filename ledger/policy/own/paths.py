"""The files that the ledger depends on: its data folder, and the settings that contain its hooks and bridges. Pure."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable
from itertools import pairwise
from typing import Final

from ledger.policy.matching.wildcard import name_glob

PROGRAM: Final = "permission-ledger"
DATA: Final = "the ledger's data folder"
HOOKS: Final = "a file in which hooks, bridges or settings of the ledger stand"

_FOLDERS: Final = (("share", PROGRAM), (f"{PROGRAM}-*",))
"""The default data folder, and the folder of a socket whose path would be too long there."""

_DATA_FILES: Final = frozenset(
    {"gateway.json", "gateway-token", "gateway.sock", "brought-rules", "installed", "askers"}
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


class OwnPaths:
    """Matches paths against the ledger's files. `folders` are data folders by their real, absolute paths."""

    def __init__(self, folders: Iterable[str] = ()) -> None:
        self._folders = tuple(_names(one) for one in folders)

    @property
    def words(self) -> frozenset[str]:
        """Return the names, in lower case, one of which every text about these files contains."""
        names = {name for one in (*_FOLDERS, *_HOOK_FILES) for name in one} | _DATA_FILES
        names |= {name for folder in self._folders for name in folder}
        return frozenset(name.strip("*").casefold() for name in names)

    def data(self, path: str) -> bool:
        """Return whether a path is a data folder, or is inside one."""
        names = _names(path)
        if any(_begins(names, folder) for folder in self._folders if path.startswith("/")):
            return True
        if any(_runs(names, folder) for folder in _FOLDERS):
            return True
        # A relative path, for example from `~/.local/share`: the folder by its name alone, with one of its files.
        return any(_is(a, PROGRAM) and any(_is(b, one) for one in _DATA_FILES) for a, b in pairwise(names))

    def holds_data(self, path: str) -> bool:
        """Return whether a folder contains a data folder."""
        names = _names(path)
        return path.startswith("/") and any(_begins(folder, names) for folder in self._folders)

    @staticmethod
    def hooks(path: str) -> bool:
        """Return whether a path is a hooks file, or is inside one."""
        names = _names(path)
        return any(_runs(names, one) for one in _HOOK_FILES)

    @staticmethod
    def holds_hooks(path: str) -> bool:
        """Return whether a path is a folder that contains hooks files."""
        names = _names(path)
        return bool(names) and any(_is(names[-1], one) for one in _HOOK_FOLDERS)


def joined(folder: str, path: str) -> str:
    """Return the path relative to a folder; a path that begins with `~` or a variable is unchanged."""
    return path if path.startswith(("/", "~", "$")) else posixpath.join(folder, path)


def _names(path: str) -> tuple[str, ...]:
    return tuple(one for one in posixpath.normpath(path.replace("\0", "")).split("/") if one not in ("", "."))


def _is(name: str, wanted: str) -> bool:
    """Return whether two names are equal on a case-insensitive file system; either may hold wildcards."""
    one, other = name.casefold(), wanted.casefold()
    if one == other:
        return True
    # `*` alone matches everything in a folder, so it does not name the ledger's files.
    means = not _GLOB.isdisjoint(one) and one.strip("*?") != "" and name_glob(one)(other)
    return means or ("*" in other and name_glob(other)(one))


def _begins(names: tuple[str, ...], folder: tuple[str, ...]) -> bool:
    return len(names) >= len(folder) and all(map(_is, names, folder))


def _runs(names: tuple[str, ...], wanted: tuple[str, ...]) -> bool:
    count = len(wanted)
    return any(all(map(_is, names[at : at + count], wanted)) for at in range(len(names) - count + 1))
